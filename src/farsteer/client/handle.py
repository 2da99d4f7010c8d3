"""A handle: a client and one session's id, so that the id need not be said again."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from typing import Concatenate, Generic, ParamSpec, TypeVar

C = TypeVar("C")
P = ParamSpec("P")
T = TypeVar("T")


class Handle(Generic[C]):
    def __init__(self, client: C, session_id: str) -> None:
        self.client = client
        self.id = session_id

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.id}>"


def of_session(method: Callable[Concatenate[C, str, P], T]) -> Callable[Concatenate[Handle[C], P], T]:
    """The client's method, for the handle's session."""

    @functools.wraps(method)
    def call(self: Handle[C], *args: P.args, **kwargs: P.kwargs) -> T:
        return method(self.client, self.id, *args, **kwargs)

    signature = inspect.signature(method)
    first, _, *rest = signature.parameters.values()
    call.__dict__["__signature__"] = signature.replace(parameters=[first, *rest])
    return call
