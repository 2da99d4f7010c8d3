"""What runs in aider's environment can run there."""

from __future__ import annotations

import ast
import sys
from pathlib import Path

import pytest

from farsteer.agents.aider import adapter

FOLDER = adapter.WORKER.parent
FILES = ("worker", "worker_fence", "worker_io", "worker_shell", "conversation")
FENCE = "worker_fence"


def imported(tree: ast.AST) -> set[str]:
    """Return the packages that are imported when the file runs: not those for types only."""
    found: set[str] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.If) and isinstance(node.test, ast.Name) and node.test.id == "TYPE_CHECKING":
            node.body = []
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            found |= {alias.name.partition(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            found.add((node.module or "").partition(".")[0])
    return found


@pytest.mark.parametrize("name", FILES)
def test_it_imports_the_standard_library_only_and_runs_with_python_3_10(name: str) -> None:
    source = (FOLDER / f"{name}.py").read_text()
    tree = ast.parse(source, feature_version=(3, 10))
    assert imported(tree) <= sys.stdlib_module_names
    assert name == FENCE or '"aider.' not in source, "only the fence knows the modules of aider"


def test_every_file_of_the_worker_is_checked() -> None:
    assert {path.stem for path in Path(FOLDER).glob("worker*.py")} <= set(FILES)
