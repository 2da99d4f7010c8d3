"""The package works for whoever has only the package: no clone, no make, no Node."""

from __future__ import annotations

import email
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import urllib.request
import zipfile
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

import pytest

from farsteer import __version__
from hatch_build import portable
from tests.docs.test_readme import README, block, first_line
from tests.support.ports import free_port

ROOT = Path(__file__).parents[1]
BIN = Path(sys.executable).parent
SECONDS = 60.0
RELATIVE_LINK = re.compile(r"\]\((?!https?://|#)")
TOOLS = ("sh", "bash", "cat", "env", "git")
"""What a machine has besides the package, in these tests."""


def uv(*arguments: str, **environment: str) -> None:
    """Run the locked uv, from its cache: `make setup` has filled it. If it was emptied since, from the network."""
    for offline in ("1", "0"):
        done = subprocess.run(
            [BIN / "uv", *arguments],
            env={**os.environ, "UV_NO_CONFIG": "1", "UV_OFFLINE": offline, **environment},
            cwd=ROOT, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=SECONDS,
        )  # fmt: skip
        if done.returncode == 0:
            return
    raise AssertionError(done.stderr)


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("wheel")
    uv("build", "--wheel", "--no-build-isolation", "--python", sys.executable, "--out-dir", str(folder), ".")
    (found,) = folder.glob("*.whl")
    return found


@pytest.fixture(scope="module")
def programs(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The bin directory of a clean environment with the wheel and its locked requirements."""
    python = tmp_path_factory.mktemp("environment") / "venv" / "bin" / "python"
    uv("venv", "--python", sys.executable, str(python.parents[1]))
    lock = str(ROOT / "requirements" / "runtime.txt")
    uv("pip", "install", "--require-hashes", "--python", str(python), "-r", lock)
    uv("pip", "install", "--no-deps", "--python", str(python), str(wheel))
    return python.parent


@pytest.fixture
def machine(programs: Path, tmp_path: Path) -> dict[str, str]:
    """The environment of a user who has the package and little else."""
    tools = tmp_path / "tools"
    tools.mkdir()
    for name in TOOLS:
        found = shutil.which(name)
        if found is not None:
            (tools / name).symlink_to(found)
    path = f"{programs}:{tools}"
    assert shutil.which("make", path=path) is None
    assert shutil.which("node", path=path) is None
    home = tmp_path / "home"
    (home / "project").mkdir(parents=True)
    return {"PATH": path, "HOME": str(home), "LANG": "C.UTF-8"}


def run(environment: dict[str, str], *argv: str, text: str | None = None) -> str:
    done = subprocess.run(
        argv, env=environment, cwd=Path(environment["HOME"]) / "project", input=text, capture_output=True, text=True,
        timeout=SECONDS,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@contextmanager
def running_up(environment: dict[str, str], port: int) -> Generator[str]:
    """`farsteer up` in an environment; yields its one line."""
    process = subprocess.Popen(
        ["farsteer", "up", "--port", str(port)], env=environment, cwd=environment["HOME"], text=True,
        executable=shutil.which("farsteer", path=environment["PATH"]), stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
    )  # fmt: skip
    try:
        yield first_line(process)
    finally:
        process.send_signal(signal.SIGTERM)
        process.communicate(timeout=SECONDS)
    assert process.returncode == 0


@pytest.mark.slow
def test_the_wheel_has_every_file_of_the_source(wheel: Path) -> None:
    files = {name for name in zipfile.ZipFile(wheel).namelist() if name.startswith("farsteer/")}
    listed = subprocess.run(
        ["git", "ls-files", "-z", "src"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
        timeout=SECONDS,
    )
    tracked = {name.removeprefix("src/") for name in listed.stdout.split("\0") if (ROOT / name).is_file()}
    assert tracked - files == set()


@pytest.mark.slow
def test_what_the_wheel_says_about_itself_is_true(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        (name,) = (name for name in archive.namelist() if name.endswith(".dist-info/METADATA"))
        metadata = email.message_from_bytes(archive.read(name))
    assert metadata["Version"] == __version__
    assert metadata["Description-Content-Type"] == "text/markdown"
    text = metadata.get_payload(decode=True)
    assert isinstance(text, bytes)
    assert text.startswith(b"# Farsteer\n")
    assert not RELATIVE_LINK.search(text.decode()), "a link that leads nowhere outside the repository"


def test_links_of_the_readme_lead_to_the_repository_or_are_plain_text() -> None:
    text = "[a](docs/a.md), [b](https://b.example/), [c](#c)\n```\n[d](e)\n```\n[f](F.md)"
    assert portable(text, None) == "a, [b](https://b.example/), [c](#c)\n```\n[d](e)\n```\nf"
    absolute = portable(text, "https://code.example/farsteer/")
    assert absolute.startswith(
        "[a](https://code.example/farsteer/blob/main/docs/a.md), [b](https://b.example/)"
    )
    assert absolute.endswith("```\n[d](e)\n```\n[f](https://code.example/farsteer/blob/main/F.md)")
    assert portable("![g](docs/g.svg)h", None) == "h"
    assert (
        portable("![g](g.svg)", "https://code.example/farsteer")
        == "![g](https://code.example/farsteer/raw/main/g.svg)"
    )
    for path in re.findall(r"\]\((?!https?://|#)([^)#]+)", README):
        assert (ROOT / path).exists(), path


@pytest.mark.slow
def test_the_installed_package_serves(machine: dict[str, str]) -> None:
    assert run(machine, "farsteer", "--version") == f"farsteer {__version__}\n"
    port = free_port()
    with running_up(machine, port) as line:
        assert line.startswith(f"Farsteer is ready at http://127.0.0.1:{port}, ")
        assert "hello" in run(machine, "farsteer", "exec", "--agent", "demo", "hello")
        assert "demo" in run(machine, "farsteer", "sessions")
        initialize = {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {"protocolVersion": 1}}
        answer = json.loads(
            run(machine, "farsteer", "acp", text=json.dumps(initialize) + "\n").splitlines()[0]
        )
        assert answer["result"]["protocolVersion"] == 1
        machine["FARSTEER_HUB"] = f"http://127.0.0.1:{port}"
        assert "AgentMessage" in run(machine, "python", "-", text=block("python"))
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/docs", timeout=SECONDS) as page:
            assert page.status == 200
            assert b"farsteer" in page.read().lower()
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/", timeout=SECONDS) as page:
            (script,) = re.findall(r'src="(/assets/[^"]+\.js)"', page.read().decode())
        with urllib.request.urlopen(f"http://127.0.0.1:{port}{script}", timeout=SECONDS) as code:
            assert code.headers["content-type"].startswith("text/javascript")
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/openapi.json", timeout=SECONDS) as description:
            assert json.load(description)["info"]["version"] == __version__


@pytest.mark.slow
def test_uv_keeps_it_on_the_path_and_takes_it_off_again(tmp_path: Path) -> None:
    """The README's commands. The versions are the locked ones, so that the cache has them."""
    install, start = block("shell").splitlines()
    assert start == "farsteer up"
    assert "`uv tool uninstall farsteer`" in README
    environment = {
        "UV_TOOL_DIR": str(tmp_path / "tools"), "UV_TOOL_BIN_DIR": str(tmp_path / "bin"), "UV_PYTHON": sys.executable,
        "UV_CONSTRAINT": "requirements/runtime.txt", "UV_BUILD_CONSTRAINT": "requirements/dev.txt",
    }  # fmt: skip
    uv(*install.split()[1:], **environment)
    home = tmp_path / "home"
    home.mkdir()
    user = {"PATH": f"{tmp_path / 'bin'}:{os.environ['PATH']}", "HOME": str(home)}
    assert shutil.which("farsteer", path=user["PATH"]) == str(tmp_path / "bin" / "farsteer")
    with running_up(user, port := free_port()) as line:
        assert line.startswith(f"Farsteer is ready at http://127.0.0.1:{port}, ")
    uv("tool", "uninstall", "farsteer", **environment)
    assert not (tmp_path / "bin" / "farsteer").exists()
    assert (home / ".farsteer" / "token").exists()


def test_nothing_says_that_the_package_is_published() -> None:
    """Until a release is: docs/releasing.md has the lines to switch on then."""
    index_install = re.compile(
        r"\b(?:uvx farsteer|(?:pip|pipx|uv tool|uv pip|uv) (?:install|run|add) (?:-\S+ )*farsteer\b)"
    )
    for page in (ROOT / "README.md", *(ROOT / "docs").glob("*.md")):
        if page.name != "releasing.md":
            assert not index_install.search(page.read_text()), page.name
    assert "not published on a package index yet" in README
