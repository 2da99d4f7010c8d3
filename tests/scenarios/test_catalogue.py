"""docs/scenarios.md is true: every scenario is there once, with a test that exists or a reason why there is none."""

from __future__ import annotations

import ast
import re
from functools import cache
from pathlib import Path

_ROOT = Path(__file__).parents[2]
_FOLDER = "tests/scenarios/"
_ROW = re.compile(r"^\| (?P<number>\d+b?) \| (?P<title>[^|]+) \| (?P<held>.*) \|$", re.MULTILINE)
_TEST = re.compile(r"`(?P<path>[\w/.]+\.py)(?:::(?P<name>\w+))?`|`(?P<bare>test_\w+)`")
_NONE = "does not apply"

NUMBERS = [*map(str, range(1, 21)), "20b", *map(str, range(21, 108))]
ROWS = [match.groupdict() for match in _ROW.finditer((_ROOT / "docs/scenarios.md").read_text())]


@cache
def functions_of(path: str) -> frozenset[str]:
    tree = ast.parse((_ROOT / path).read_text())
    functions = (ast.FunctionDef, ast.AsyncFunctionDef)
    return frozenset(node.name for node in ast.walk(tree) if isinstance(node, functions))


def named(held: str) -> list[tuple[str, str | None]]:
    """The tests that a row names: each by its file, the last one before it where it names none."""
    found: list[tuple[str, str | None]] = []
    path = ""
    for match in _TEST.finditer(held):
        if match["path"]:
            path = match["path"] if "/" in match["path"] else _FOLDER + match["path"]
        found.append((path, match["name"] or match["bare"]))
    return found


def test_every_scenario_is_in_the_table_once() -> None:
    assert [row["number"] for row in ROWS] == NUMBERS


def test_every_scenario_has_a_test_that_exists_or_a_reason() -> None:
    for row in ROWS:
        tests = named(row["held"])
        assert tests or row["held"].startswith(_NONE), row
        for path, name in tests:
            assert (_ROOT / path).is_file(), path
            assert name is None or name in functions_of(path), f"{path}::{name}"


def test_every_test_of_a_scenario_is_in_its_row() -> None:
    held = {row["number"]: row["held"] for row in ROWS}
    for path in sorted((_ROOT / _FOLDER).glob("test_*.py")):
        for name in functions_of(f"{_FOLDER}{path.name}"):
            if match := re.match(r"test_0*(\d+b?)_", name):
                assert f"{name}`" in held[match[1]], name
