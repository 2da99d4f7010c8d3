"""Imports go downwards only, the core is pure, and starting up does not load what only the hub needs."""

import ast
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import farsteer

SRC = Path(__file__).parents[1] / "src"
MODULES = sorted((SRC / "farsteer").rglob("*.py"))

ROOT = "farsteer"
PACKAGES = {
    "cli", "faces", "server", "hub", "runner", "link", "agents", "storage", "client", "jsonrpc", "core",
}  # fmt: skip
# Each package and what it may import besides itself. Hub and runner meet only in the link's messages.
MAY_IMPORT: dict[str, set[str]] = {
    "core": set(),
    "jsonrpc": {"core"},
    "link": {"core"},
    "storage": {"core"},
    "agents": {"jsonrpc", "storage", "core"},
    "client": {"core"},
    "hub": {"link", "storage", "core"},
    "runner": {"link", "agents", "storage", "core"},
    "server": {"core"},
    "faces": {"server", "hub", "link", "client", "jsonrpc", "core"},
    "cli": PACKAGES,
    # The modules directly in farsteer/: lazy attributes, the public names of the SDK, and `python -m farsteer`.
    "__init__": {"client"},
    "errors": {"core"},
    "events": {"core"},
    "__main__": {"cli"},
}
# What `farsteer.NAME` stands for where NAME is no package.
ATTRIBUTES = {name: None if name == "__version__" else "client" for name in farsteer.__all__}

# fmt: off
IO_MODULES = {
    "asyncio", "concurrent", "fcntl", "ftplib", "glob", "http", "mmap", "multiprocessing", "os", "pty",
    "queue", "select", "selectors", "shutil", "signal", "smtplib", "socket", "socketserver", "sqlite3", "ssl",
    "subprocess", "tempfile", "threading", "urllib",
}
# fmt: on
CORE_LIBRARIES = {"msgspec", "tree_sitter", "tree_sitter_bash"}
IO_CALLS = {"open", "input", "print"}

HUB_ONLY = ["joserfc", "socketio", "starlette", "uvicorn"]


def module_name(path: Path) -> str:
    parts = path.relative_to(SRC).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def layer_of(path: Path) -> str:
    return path.relative_to(SRC / ROOT).with_suffix("").parts[0]


def imports(path: Path) -> Iterator[tuple[int, str]]:
    """(line, dotted name) of each import anywhere in the file; `from a import b` gives a.b."""
    package = list(path.relative_to(SRC).parent.parts)
    for node in ast.walk(ast.parse(path.read_bytes(), str(path))):
        if isinstance(node, ast.Import):
            for alias in node.names:
                yield node.lineno, alias.name
        elif isinstance(node, ast.ImportFrom):
            above = package[: len(package) - node.level + 1] if node.level else []
            base = ".".join([*above, *([node.module] if node.module else [])])
            for alias in node.names:
                yield node.lineno, f"{base}.{alias.name}"


def broken_layers(path: Path) -> Iterator[str]:
    layer = layer_of(path)
    for line, name in imports(path):
        top, _, rest = name.partition(".")
        if top != ROOT:
            continue
        first = rest.partition(".")[0]
        target = ATTRIBUTES.get(first, first)
        if target and target != layer and target not in MAY_IMPORT[layer]:
            yield f"{path.relative_to(SRC)}:{line}: {layer} must not import {name}"


def impurities(path: Path) -> Iterator[str]:
    for line, name in imports(path):
        top = name.partition(".")[0]
        if top in IO_MODULES:
            yield f"{path.relative_to(SRC)}:{line}: core does no I/O, so no {top}"
        elif top not in {ROOT, *CORE_LIBRARIES} and top not in sys.stdlib_module_names:
            yield f"{path.relative_to(SRC)}:{line}: core needs no library but msgspec, not {top}"
    for node in ast.walk(ast.parse(path.read_bytes(), str(path))):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in IO_CALLS:
            yield f"{path.relative_to(SRC)}:{node.lineno}: core does no I/O, so no {node.func.id}()"


def test_every_package_has_its_place() -> None:
    unknown = sorted({layer_of(path) for path in MODULES} - MAY_IMPORT.keys())
    assert not unknown, f"say in MAY_IMPORT what these may import: {unknown}"


@pytest.mark.parametrize("layer", sorted({layer_of(path) for path in MODULES} & MAY_IMPORT.keys()))
def test_imports_go_downwards_only(layer: str) -> None:
    broken = [wrong for path in MODULES if layer_of(path) == layer for wrong in broken_layers(path)]
    assert not broken, "\n" + "\n".join(broken)


def test_core_is_pure() -> None:
    found = [wrong for path in MODULES if layer_of(path) == "core" for wrong in impurities(path)]
    assert not found, "\n" + "\n".join(found)


def started_modules() -> list[list[str]]:
    """Groups of modules that must start light; each group is loaded in one new interpreter."""
    groups: dict[str, list[str]] = {}
    for path in MODULES:
        name = module_name(path)
        if name in {ROOT, f"{ROOT}.cli", f"{ROOT}.cli.main"}:
            groups[name] = [name]
        elif layer_of(path) in {"agents", "core", "link", "runner"} and not name.endswith("__main__"):
            groups.setdefault(layer_of(path), []).append(name)
    return [*groups.values()]


@pytest.mark.slow
@pytest.mark.parametrize("modules", started_modules(), ids=lambda modules: modules[0])
def test_the_cli_and_the_runner_start_without_the_hubs_libraries(modules: list[str]) -> None:
    script = (
        "import importlib, sys\n"
        f"for name in {modules!r}:\n"
        "    importlib.import_module(name)\n"
        f"    loaded = [library for library in {HUB_ONLY!r} if library in sys.modules]\n"
        "    if loaded: sys.exit(f'importing {name} loads {loaded}')\n"
    )
    result = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=30)
    assert result.returncode == 0, result.stderr


@pytest.mark.parametrize(
    ("module", "line", "allowed"),
    [
        ("core/x.py", "import farsteer.hub", False),
        ("core/x.py", "from farsteer import Client", False),
        ("core/x.py", "from farsteer import __version__", True),
        ("core/x.py", "from .events import Event", True),
        ("hub/x.py", "from farsteer.runner.session.actor import Actor", False),
        ("hub/store/x.py", "from ...agents import base", False),
        ("hub/x.py", "from farsteer.link import messages", True),
        ("runner/x.py", "def f():\n    from farsteer import hub", False),
        ("runner/x.py", "from farsteer.agents.base import Adapter", True),
        ("client/x.py", "from farsteer.link import messages", False),
        ("faces/rest/x.py", "from farsteer.runner import actor", False),
        ("link/x.py", "from farsteer.storage import sqlite", False),
        ("cli/x.py", "from farsteer.hub import app", True),
    ],
)
def test_the_layer_check_sees(
    module: str, line: str, allowed: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys.modules[__name__], "SRC", tmp_path)
    path = tmp_path / ROOT / module
    path.parent.mkdir(parents=True)
    path.write_text(line)
    assert (not [*broken_layers(path)]) is allowed


@pytest.mark.parametrize("line", ["import os.path", "from asyncio import Queue", "open('x')", "import httpx"])
def test_the_purity_check_sees(line: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys.modules[__name__], "SRC", tmp_path)
    path = tmp_path / ROOT / "core" / "x.py"
    path.parent.mkdir(parents=True)
    path.write_text(line)
    assert [*impurities(path)]
