"""docs/security.md names tests that exist."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

from farsteer.hub import Scope
from tests.docs.scope_table import with_table

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "security.md").read_text()
NAMED = sorted(set(re.findall(r"`(tests/[\w/]+\.py)::(\w+)`", PAGE)))


@pytest.mark.parametrize(("path", "name"), NAMED, ids=[f"{path}::{name}" for path, name in NAMED])
def test_every_test_on_the_page_exists(path: str, name: str) -> None:
    tree = ast.parse((ROOT / path).read_text())
    functions = (ast.FunctionDef, ast.AsyncFunctionDef)
    assert name in {node.name for node in ast.walk(tree) if isinstance(node, functions)}


def test_the_table_of_scopes_is_that_of_the_code() -> None:
    assert with_table(PAGE) == PAGE, "docs/security.md is old: run `python -m tests.docs.scope_table`"


def test_every_scope_is_described() -> None:
    described = re.findall(r"^\| `(\w+)` \|", PAGE.partition("## Scopes")[2], re.MULTILINE)
    assert described == [scope.value for scope in Scope]


def test_every_attack_names_its_test() -> None:
    attacks = PAGE.partition("## Attacks")[2]
    rows = [
        line for line in attacks.splitlines() if line.startswith("| ") and not line.startswith("| attack |")
    ]
    assert [row for row in rows if not re.search(r"`tests/[\w/]+\.py::\w+`", row)] == []
