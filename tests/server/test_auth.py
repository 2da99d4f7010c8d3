"""A bearer token is one well-formed header, or none."""

import pytest
from starlette.datastructures import Headers

from farsteer.core.errors import Unauthorized
from farsteer.server.auth import bearer_token


@pytest.mark.parametrize("given", ["Bearer abc", "bearer abc", "BEARER  abc ", "Bearer abc\t"])
def test_a_token(given: str) -> None:
    assert bearer_token(Headers({"Authorization": given})) == "abc"


@pytest.mark.parametrize(
    "given", ["", "Bearer", "Bearer ", "abc", "Basic abc", "Bearerabc", "Bearer é", "Bearer " + "x" * 8193]
)
def test_what_is_none(given: str) -> None:
    with pytest.raises(Unauthorized):
        bearer_token(Headers({"Authorization": given}))


def test_none_and_two_are_none() -> None:
    with pytest.raises(Unauthorized):
        bearer_token(Headers({}))
    with pytest.raises(Unauthorized):
        bearer_token(Headers(raw=[(b"authorization", b"Bearer a"), (b"authorization", b"Bearer a")]))
