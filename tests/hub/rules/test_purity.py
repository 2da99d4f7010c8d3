"""Rules decide and nothing else: they import no store, no service and nothing that does I/O."""

import ast
from pathlib import Path

import pytest

from farsteer.hub import rules

MODULES = sorted(Path(rules.__file__).parent.glob("*.py"))
ALLOWED = ("farsteer.core", "farsteer.hub.rules", "farsteer.link.messages", "msgspec")
STANDARD = {"__future__", "collections", "datetime", "enum", "itertools", "operator", "re", "typing"}


def imported(path: Path) -> set[str]:
    found: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            found.add(node.module or "")
    return found


@pytest.mark.parametrize("path", MODULES, ids=lambda path: path.stem)
def test_a_rule_imports_only_what_is_pure(path: Path) -> None:
    others = {name for name in imported(path) if name.partition(".")[0] not in STANDARD}
    assert not [name for name in others if not name.startswith(ALLOWED)]
