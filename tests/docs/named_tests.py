"""Finds the tests that a page of the documentation names, as `tests/path.py::name`."""

from __future__ import annotations

import ast
import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
_NAMED = re.compile(r"`(tests/[\w/]+\.py)::(\w+)`")


def named_tests(page: str) -> list[tuple[str, str]]:
    """Return the path and the name of each test on the page."""
    return sorted(set(_NAMED.findall(page)))


def exists(path: str, name: str) -> bool:
    tree = ast.parse((ROOT / path).read_text())
    functions = (ast.FunctionDef, ast.AsyncFunctionDef)
    return name in {node.name for node in ast.walk(tree) if isinstance(node, functions)}


def rows_without_a_test(tables: str, first_column: str) -> list[str]:
    """Return the rows of the tables whose first column has this title and that name no test."""
    rows = [
        line
        for line in tables.splitlines()
        if line.startswith("| ") and not line.startswith(f"| {first_column} |")
    ]
    return [row for row in rows if not _NAMED.search(row)]
