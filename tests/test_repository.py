"""The repository works on any machine: locked and hashed, naming no machine and no registry."""

import json
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
MODULE_LINES = 500
LOCKS = ["runtime", "dev", "uv"]
# Written apart, so that this file does not name them.
REGISTRIES = [
    "pypi" + ".org",
    "python" + "hosted.org",
    "registry." + "npmjs.org",
    "registry." + "yarnpkg.com",
    "deb." + "debian.org",
]
MACHINE_PATH = re.compile(r"(?<![\w.~/*<>{}$-])/(?:work|root)/")


def tracked_text() -> Iterator[tuple[str, str]]:
    """What is committed or would be: also new files that git does not ignore."""
    listed = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        cwd=ROOT,
        capture_output=True,
        check=True,
        text=True,
        timeout=30,
    )
    for name in sorted({*listed.stdout.split("\0")} - {""}):
        path = ROOT / name
        if not path.is_file():
            continue
        content = path.read_bytes()
        if b"\0" not in content:
            yield name, content.decode(errors="replace")


def requirements(lock: str) -> list[list[str]]:
    """Each requirement of a lock file as its logical line's words."""
    text = (ROOT / "requirements" / f"{lock}.txt").read_text()
    lines = re.sub(r"^\s*#.*\n?", "", text, flags=re.MULTILINE).replace("\\\n", " ").splitlines()
    return [line.split() for line in lines if line.strip()]


def pins(lock: str) -> dict[str, str]:
    return {words[0].partition("==")[0]: words[0].partition("==")[2] for words in requirements(lock)}


def test_modules_stay_small() -> None:
    sizes = {path: len(path.read_text().splitlines()) for path in (ROOT / "src").rglob("*.py")}
    large = [f"{path.relative_to(ROOT)}: {size}" for path, size in sizes.items() if size > MODULE_LINES]
    assert not large, f"over {MODULE_LINES} lines, one noun per module: {large}"


@pytest.mark.slow
def test_no_file_names_a_machine_or_a_registry() -> None:
    found = [
        f"{name}:{number}: {line.strip()[:120]}"
        for name, text in tracked_text()
        for number, line in enumerate(text.splitlines(), 1)
        if MACHINE_PATH.search(line) or any(host in line for host in REGISTRIES)
    ]
    assert not found, "\n" + "\n".join(found)


@pytest.mark.parametrize("lock", [*LOCKS, "audit"])
def test_every_locked_requirement_is_pinned_and_hashed(lock: str) -> None:
    wrong = [
        words[0]
        for words in requirements(lock)
        if not re.fullmatch(r"[a-z0-9-]+==[\w.+!]+", words[0])
        or not any(re.fullmatch(r"--hash=sha256:[0-9a-f]{64}", word) for word in words)
    ]
    assert requirements(lock)
    assert not wrong


def test_the_locks_agree() -> None:
    dev = pins("dev")
    for lock in LOCKS:
        assert {name: dev.get(name) for name in pins(lock)} == pins(lock), (
            f"run make lock: {lock} and dev differ"
        )


def test_javascript_clients_are_locked_by_content_not_by_address() -> None:
    lock = json.loads((ROOT / "tests/js/package-lock.json").read_text())
    packages = {name: entry for name, entry in lock["packages"].items() if name}
    assert packages["node_modules/socket.io-client"]["version"].startswith("4.")
    assert [name for name, entry in packages.items() if "integrity" not in entry or "resolved" in entry] == []
