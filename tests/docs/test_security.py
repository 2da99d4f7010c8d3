"""docs/security.md names tests that exist."""

from __future__ import annotations

import re

import pytest

from farsteer.hub import Scope
from tests.docs.named_tests import ROOT, exists, named_tests, rows_without_a_test
from tests.docs.scope_table import with_table

PAGE = (ROOT / "docs" / "security.md").read_text()
NAMED = named_tests(PAGE)


@pytest.mark.parametrize(("path", "name"), NAMED, ids=[f"{path}::{name}" for path, name in NAMED])
def test_every_test_on_the_page_exists(path: str, name: str) -> None:
    assert exists(path, name)


def test_the_table_of_scopes_is_that_of_the_code() -> None:
    assert with_table(PAGE) == PAGE, "docs/security.md is old: run `python -m tests.docs.scope_table`"


def test_every_scope_is_described() -> None:
    described = re.findall(r"^\| `(\w+)` \|", PAGE.partition("## Scopes")[2], re.MULTILINE)
    assert described == [scope.value for scope in Scope]


def test_every_attack_names_its_test() -> None:
    assert rows_without_a_test(PAGE.partition("## Attacks")[2], "attack") == []
