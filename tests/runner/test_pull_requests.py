from __future__ import annotations

import pytest

from farsteer.runner.pull_requests import compare_page


@pytest.mark.parametrize(
    ("address", "page"),
    [
        ("git@github.com:owner/name.git", "https://github.com/owner/name/compare/main...fix/a%20b?expand=1"),
        ("https://github.com/owner/name", "https://github.com/owner/name/compare/main...fix/a%20b?expand=1"),
        ("ssh://git@gitlab.example:22/group/name.git", "https://gitlab.example/group/name/-/merge_requests/new?merge_request%5Bsource_branch%5D=fix%2Fa%20b"),
        ("/srv/git/name.git", None),
        ("https://example.com/name", None),
        ("https://[broken", None),
        ("", None),
    ],
)  # fmt: skip
def test_where_a_pull_request_is_opened(address: str, page: str | None) -> None:
    assert compare_page(address, "main", "fix/a b") == page


def test_the_page_has_no_password() -> None:
    page = compare_page("https://user:secret@github.com/owner/name.git", None, "fix")
    assert page == "https://github.com/owner/name/compare/fix?expand=1"
