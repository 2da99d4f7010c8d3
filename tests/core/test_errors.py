import pytest

from farsteer.core import errors
from farsteer.core.errors import AlreadyAnswered, ErrorCode, FarsteerError, MachineOffline, NotCapable


def tree(kind: type[FarsteerError]) -> list[type[FarsteerError]]:
    return [kind, *(leaf for child in kind.__subclasses__() for leaf in tree(child))]


@pytest.mark.parametrize("kind", tree(FarsteerError), ids=lambda kind: kind.__name__)
def test_every_error_is_in_the_documented_tree(kind: type[FarsteerError]) -> None:
    assert kind.__name__ in (errors.__doc__ or "")
    assert isinstance(kind.code, ErrorCode)


@pytest.mark.parametrize(
    "kind", [MachineOffline, AlreadyAnswered, NotCapable, errors.NotFound, errors.RateLimited]
)
def test_an_error_crosses_the_link_as_itself(kind: type[FarsteerError]) -> None:
    error = kind("what happened", outcome="approved")
    back = error.record().to_error()
    assert type(back) is kind
    assert (back.code, back.message, back.details) == (error.code, error.message, error.details)
