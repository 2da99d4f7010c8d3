"""An event loop whose time passes when nothing is left to do, and tasks that die together.

With it a session of hours is lived through in seconds, and the same steps always happen in the same order.
"""

from __future__ import annotations

import asyncio
import contextvars
import itertools
import selectors
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

T = TypeVar("T")

_BUSY = 20_000
"""Turns of the loop without time passing."""
_LIFE: contextvars.ContextVar[Mortal | None] = contextvars.ContextVar("life", default=None)


class Stuck(AssertionError):
    """Something is awaited that nobody will ever bring about."""


class _Selector(selectors.SelectSelector):
    def __init__(self) -> None:
        super().__init__()
        self.passed = 0.0
        self._busy = 0

    def select(self, timeout: float | None = None) -> Any:
        events = super().select(0)
        self.passed += 1e-7  # a turn of the loop takes its time
        self._busy = self._busy + 1 if timeout == 0 else 0
        if self._busy > _BUSY:
            self._busy = 0
            raise Stuck("it is busy with nothing, for ever")
        if not events and timeout is None:
            raise Stuck("nothing is left to happen")
        if not events and timeout is not None and timeout > 0:
            self.passed += timeout
        return events


class VirtualLoop(asyncio.SelectorEventLoop):
    def __init__(self) -> None:
        self._virtual = _Selector()
        super().__init__(self._virtual)
        self._clock_resolution = 1e-6

    def time(self) -> float:
        return self._virtual.passed

    def run_in_executor(self, executor: Any, func: Callable[..., T], *args: Any) -> asyncio.Future[T]:
        """In place: a thread would come back at a time of its own."""
        future: asyncio.Future[T] = self.create_future()
        try:
            future.set_result(func(*args))
        except Exception as error:
            future.set_exception(error)
        return future


class _Task(asyncio.Task[T]):
    """Numbered, so that a set of tasks has the same order in every run."""

    _numbers = itertools.count()

    def __init__(self, *args: Any, **options: Any) -> None:
        self._number = next(self._numbers)
        super().__init__(*args, **options)

    def __hash__(self) -> int:
        return self._number


class Mortal:
    """One life of a hub or a runner inside this process: what it starts dies with it, wherever it stands."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self.dead = False
        self._loop = loop
        self._tasks: dict[asyncio.Task[Any], None] = {}
        self._context = contextvars.copy_context()
        self._context.run(_LIFE.set, self)

    def spawn(self, work: Coroutine[Any, Any, T]) -> asyncio.Task[T]:
        return self._loop.create_task(work, context=self._context)

    def adopt(self, task: asyncio.Task[Any]) -> None:
        self._tasks[task] = None
        task.add_done_callback(lambda ended: self._tasks.pop(ended, None))
        if self.dead:
            task.cancel()

    async def die(self) -> None:
        self.dead = True
        for patience in range(600):
            for task in [*self._tasks]:
                task.cancel()
            if not self._tasks:
                return
            await asyncio.sleep(0 if patience < 100 else 0.01)
        raise AssertionError(f"tasks that do not die: {self._tasks}")


def make_task(
    loop: asyncio.AbstractEventLoop,
    work: Coroutine[Any, Any, T],
    *,
    context: contextvars.Context | None = None,
) -> asyncio.Task[T]:
    """The loop's task factory: a task belongs to the life in which it was made."""
    task = _Task(work, loop=loop, context=context)
    life = _LIFE.get() if context is None else context.get(_LIFE)
    if life is not None:
        life.adopt(task)
    return task


def outside(work: Coroutine[Any, Any, T]) -> asyncio.Task[T]:
    """A task of no life of ours: an agent's."""
    return asyncio.get_running_loop().create_task(work, context=contextvars.Context())
