"""Makes the calls of an open store fail: the n-th, or each that a condition names."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

from farsteer.hub.store.base import Store

Decide = Callable[[str, int], BaseException | None]
"""Gets the name of the method and the number of the call, from 1. Returns what it raises, if it fails."""


class FailingCalls:
    """Wraps every asynchronous method of `store`. `before` fails a call undone, `after` one that has been committed."""

    def __init__(self, store: Store) -> None:
        self.before: Decide = lambda name, count: None
        self.after: Decide = lambda name, count: None
        self.names: list[str] = []
        """The calls so far."""
        for name, method in inspect.getmembers(store, inspect.iscoroutinefunction):
            if not name.startswith("_") and name != "close":
                setattr(store, name, self._wrap(name, method))

    def _wrap(self, name: str, method: Callable[..., Any]) -> Callable[..., Any]:
        async def call(*args: Any, **kwargs: Any) -> Any:
            self.names.append(name)
            count = len(self.names)
            if (error := self.before(name, count)) is not None:
                raise error
            result = await method(*args, **kwargs)
            if (error := self.after(name, count)) is not None:
                raise error
            return result

        return call
