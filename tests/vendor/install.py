"""`python -m tests.vendor.install`: installs every pinned CLI into a cache outside the repository.

A CLI is installed into a temporary folder and then renamed, under a lock. An installed CLI is therefore always
complete, also when several processes install at once or one is killed.
"""

from __future__ import annotations

import fcntl
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from bench.droid.flood import sdk_home, sdk_python
from bench.peers.base import Unavailable
from tests.support.node import NODE
from tests.vendor.pins import PINS, Pin, here

UNPACK = """
const fs = require("fs"), zlib = require("zlib"), path = process.argv[1];
fs.writeFileSync(path, zlib.brotliDecompressSync(fs.readFileSync(path + ".br")), { mode: 0o755 });
fs.unlinkSync(path + ".br");
"""
NPM = NODE.parents[1] / "lib" / "node_modules" / "npm" / "bin" / "npm-cli.js"
TIMEOUT = 600.0


def in_ci() -> bool:
    return os.environ.get("CI", "").lower() not in ("", "0", "false")


def cache_folder() -> Path:
    """Return the cache folder, which all checkouts share."""
    if named := os.environ.get("FARSTEER_VENDOR_CACHE"):
        return Path(named)
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "farsteer" / "vendor"


# Read once: tests give themselves another HOME.
CACHE = cache_folder()
SDK = sdk_home()


class InstallFailed(Exception):
    """npm failed, or installed something other than the pinned version."""


def program(pin: Pin, cache: Path = CACHE) -> Path:
    """Return the path of the installed program."""
    return _place(pin, cache) / "node_modules" / pin.program_here


def _place(pin: Pin, cache: Path) -> Path:
    return cache / f"{pin.id}-{here()}"


def install(pin: Pin, cache: Path = CACHE) -> Path:
    """Return the pinned program, and install it if it is missing."""
    place = _place(pin, cache)
    if place.is_dir():
        return program(pin, cache)
    cache.mkdir(parents=True, exist_ok=True)
    with locked(cache / f".{pin.id}.lock"):
        if not place.is_dir():
            for abandoned in cache.glob(f".{pin.id}-*"):
                shutil.rmtree(abandoned)
            folder = Path(tempfile.mkdtemp(prefix=f".{pin.id}-", dir=cache))
            try:
                _fetch(pin, folder)
                if pin.packed:
                    _unpack(folder / "node_modules" / pin.program_here)
                _check(pin, folder)
                folder.chmod(0o755)
                folder.rename(place)
            finally:
                shutil.rmtree(folder, ignore_errors=True)
    return program(pin, cache)


@contextmanager
def locked(path: Path) -> Iterator[None]:
    with path.open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def _fetch(pin: Pin, folder: Path) -> None:
    (folder / "package.json").write_text(json.dumps({"private": True}))
    packed = folder / ".npm"
    command = [
        str(NPM), "install", f"{pin.package_here}@{pin.release_here}", "--save-exact",
        "--cache", str(packed), "--no-audit", "--no-fund", "--no-update-notifier", "--loglevel=error",
        *([] if pin.scripts else ["--ignore-scripts"]),
    ]  # fmt: skip
    _run_node("npm", command, folder)
    shutil.rmtree(packed, ignore_errors=True)


def _unpack(program: Path) -> None:
    _run_node("unpacking", ["-e", UNPACK, str(program)], program.parent)


def _run_node(what: str, arguments: list[str], folder: Path) -> None:
    """Run node, and raise InstallFailed with its complaint if it fails."""
    environment = {
        **os.environ,
        "NODE_OPTIONS": "--use-system-ca",
        "PATH": f"{NODE.parent}:{os.environ['PATH']}",
    }
    with subprocess.Popen(
        [str(NODE), *arguments], cwd=folder, env=environment, stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, start_new_session=True,
    ) as node:  # fmt: skip
        try:
            _, complaint = node.communicate(timeout=TIMEOUT)
        except BaseException as error:
            os.killpg(node.pid, signal.SIGKILL)
            if isinstance(error, subprocess.TimeoutExpired):
                raise InstallFailed(f"{what} took more than {TIMEOUT:g} s") from error
            raise
    if node.returncode != 0:
        raise InstallFailed(complaint.strip() or f"{what} ended with {node.returncode}")


def _check(pin: Pin, folder: Path) -> None:
    installed = json.loads((folder / "node_modules" / ".package-lock.json").read_text())["packages"]
    got = installed[f"node_modules/{pin.package_here}"]
    if got["version"] != pin.release_here:
        raise InstallFailed(f"npm installed {got['version']}")
    expected = pin.integrity.get(here())
    if expected is not None and got.get("integrity") != expected:
        raise InstallFailed(f"{pin.package_here} is not what was pinned: {got.get('integrity')}")
    path = folder / "node_modules" / pin.program_here
    if not os.access(path, os.X_OK):
        raise InstallFailed(f"{pin.package_here} has no program {pin.program_here}")


def main(cache: Path = CACHE) -> int:
    from tests.vendor.aider import installation as aider  # it uses this module

    failed = False
    for pin in PINS:
        known = program(pin, cache).exists()
        started = time.monotonic()
        try:
            where = install(pin, cache)
        except InstallFailed as error:
            failed = True
            print(f"vendor: {pin.name} {pin.version} is missing: {error}", file=sys.stderr)
        else:
            took = "" if known else f", installed in {time.monotonic() - started:.0f} s"
            print(f"vendor: {pin.name} {pin.version} at {where}{took}", file=sys.stderr)
    try:
        print(f"vendor: aider {aider.version()} at {aider.install(cache)}", file=sys.stderr)
    except InstallFailed as error:
        failed = True
        print(f"vendor: aider {aider.version()} is missing: {error}", file=sys.stderr)
    try:
        print(f"vendor: droid-sdk at {sdk_python(SDK)}", file=sys.stderr)
    except Unavailable as error:
        failed = True
        print(f"vendor: {error}", file=sys.stderr)
    return 1 if failed and in_ci() else 0


if __name__ == "__main__":
    sys.exit(main())
