"""HAPI's program from npm, at the locked version, kept in a cache outside the repository."""

from __future__ import annotations

import json
import os
import platform
import shutil
import subprocess
import sys
from pathlib import Path

from bench.peers.base import Unavailable
from bench.progress import say

PACKAGE = Path(__file__).with_name("hapi_package")
VERSION: str = json.loads((PACKAGE / "package.json").read_text())["dependencies"]["@twsxtd/hapi"]
SECONDS = 300
NPM_CI = (
    "ci", "--ignore-scripts", "--no-audit", "--no-fund", "--no-update-notifier", "--loglevel=error",
    "--fetch-retries=1", "--fetch-retry-mintimeout=1000", "--fetch-retry-maxtimeout=2000",
)  # fmt: skip


def program() -> Path:
    """Return HAPI's executable, without the Node.js script in front of it. This favours HAPI."""
    system = {"linux": "linux", "darwin": "darwin"}.get(sys.platform)
    machine = {"x86_64": "x64", "amd64": "x64", "arm64": "arm64", "aarch64": "arm64"}.get(
        platform.machine().lower()
    )
    if system is None or machine is None:
        raise Unavailable(f"HAPI has no build for {sys.platform} {platform.machine()}")
    cache = _cache()
    modules = cache / "node_modules"
    path = modules / "@twsxtd" / f"hapi-{system}-{machine}" / "bin" / "hapi"
    # npm writes this file last: without it an installation was interrupted.
    if not (modules / ".package-lock.json").exists():
        _install(cache)
    if not path.exists():
        raise Unavailable(f"npm installed no HAPI for {system}-{machine}")
    return path


def _cache() -> Path:
    base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(base) / "farsteer-bench" / f"hapi-{VERSION}"


def _install(cache: Path) -> None:
    here = Path(sys.executable).parent
    path = f"{here}{os.pathsep}{os.environ.get('PATH', os.defpath)}"
    npm = shutil.which("npm", path=path)
    if npm is None:
        raise Unavailable("npm is not here")
    say(f"installing HAPI {VERSION} into {cache}")
    cache.mkdir(parents=True, exist_ok=True)
    for name in ("package.json", "package-lock.json"):
        shutil.copy(PACKAGE / name, cache)
    try:
        subprocess.run(
            [npm, *NPM_CI],
            cwd=cache,
            env={**os.environ, "PATH": path, "NODE_OPTIONS": "--use-system-ca"},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
            check=True,
            timeout=SECONDS,
            start_new_session=True,
        )
    except subprocess.CalledProcessError as error:
        lines = error.stderr.strip().splitlines() or ["no reason given"]
        raise Unavailable(f"npm could not install HAPI: {lines[0]}") from error
    except subprocess.TimeoutExpired as error:
        raise Unavailable(f"npm did not install HAPI within {SECONDS} s") from error
