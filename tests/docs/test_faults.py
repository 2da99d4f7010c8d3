"""docs/faults.md names a test for every fault."""

from __future__ import annotations

import pytest

from tests.docs.named_tests import ROOT, exists, named_tests, rows_without_a_test

PAGE = (ROOT / "docs" / "faults.md").read_text()
NAMED = named_tests(PAGE)


@pytest.mark.parametrize(("path", "name"), NAMED, ids=[f"{path}::{name}" for path, name in NAMED])
def test_every_test_on_the_page_exists(path: str, name: str) -> None:
    assert exists(path, name)


def test_every_fault_names_its_test() -> None:
    assert rows_without_a_test(PAGE, "fault") == []
