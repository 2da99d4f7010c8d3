"""docs/architecture.md, its picture and CONTRIBUTING.md name what exists."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.test_layers import MAY_IMPORT, PACKAGES

ROOT = Path(__file__).parents[2]
SRC = ROOT / "src" / "farsteer"
PAGES = {name: (ROOT / name).read_text() for name in ("docs/architecture.md", "CONTRIBUTING.md")}
PICTURE = (ROOT / "docs" / "packages.svg").read_text()


@pytest.mark.parametrize("page", PAGES)
def test_every_link_on_the_page_leads_somewhere(page: str) -> None:
    for target in re.findall(r"\]\(([\w./-]+)\)", PAGES[page]):
        assert ((ROOT / page).parent / target).exists(), target


def test_the_table_of_packages_says_what_the_layer_test_enforces() -> None:
    rows = re.findall(r"^\| `(\w+)/` \| .* \| (.*) \|$", PAGES["docs/architecture.md"], re.MULTILINE)
    allowed = {"nothing of ours": set(), "everything": PACKAGES}
    documented = {
        name: allowed.get(imports) or set(imports.split(", ")) - {"nothing of ours"} for name, imports in rows
    }
    assert documented == {name: MAY_IMPORT[name] for name in PACKAGES}


def test_the_picture_shows_every_package_and_only_what_exists() -> None:
    folders = re.findall(r">(\w+)/</t", PICTURE)
    assert set(folders) >= PACKAGES
    names = {path.name for path in SRC.rglob("*") if path.is_dir()}
    assert set(folders) <= names
    for file in re.findall(r">(\w+\.py)</tspan", PICTURE):
        assert [*SRC.rglob(file)], file
