"""The bearer token must be one well-formed Authorization header."""

import pytest
from starlette.datastructures import Headers

from farsteer.core.errors import Unauthorized
from farsteer.server.auth import bearer_token


@pytest.mark.parametrize("given", ["Bearer abc", "bearer abc", "BEARER  abc ", "Bearer abc\t"])
def test_a_well_formed_header_gives_the_token(given: str) -> None:
    assert bearer_token(Headers({"Authorization": given})) == "abc"


@pytest.mark.parametrize(
    "given", ["", "Bearer", "Bearer ", "abc", "Basic abc", "Bearerabc", "Bearer é", "Bearer " + "x" * 8193]
)
def test_a_malformed_header_is_refused(given: str) -> None:
    with pytest.raises(Unauthorized):
        bearer_token(Headers({"Authorization": given}))


def test_a_missing_or_repeated_header_is_refused() -> None:
    with pytest.raises(Unauthorized):
        bearer_token(Headers({}))
    with pytest.raises(Unauthorized):
        bearer_token(Headers(raw=[(b"authorization", b"Bearer a"), (b"authorization", b"Bearer a")]))
