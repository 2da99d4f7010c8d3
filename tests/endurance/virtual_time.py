"""An event loop with virtual time, and groups of tasks that can be killed together.

Time passes only when nothing is left to do. So hours of a session take seconds, and the same steps always happen in the
same order.
"""

from __future__ import annotations

import asyncio
import contextvars
import itertools
import selectors
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

T = TypeVar("T")

_MAX_BUSY_TURNS = 20_000
"""Turns of the loop without time passing, after which it counts as an endless loop."""
_GROUP: contextvars.ContextVar[KillableTasks | None] = contextvars.ContextVar("group", default=None)


class Stuck(AssertionError):
    """A task waits for something that will never happen."""


class _Selector(selectors.SelectSelector):
    def __init__(self) -> None:
        super().__init__()
        self.passed = 0.0
        self._busy = 0

    def select(self, timeout: float | None = None) -> Any:
        events = super().select(0)
        self.passed += 1e-7  # a turn of the loop takes some time
        self._busy = self._busy + 1 if timeout == 0 else 0
        if self._busy > _MAX_BUSY_TURNS:
            self._busy = 0
            raise Stuck("the loop is busy without end")
        if not events and timeout is None:
            raise Stuck("nothing is left to do")
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
        """Run `func` at once: a thread would finish at an unpredictable time."""
        future: asyncio.Future[T] = self.create_future()
        try:
            future.set_result(func(*args))
        except Exception as error:
            future.set_exception(error)
        return future


class _Task(asyncio.Task[T]):
    """A task whose hash is a number, so that a set of tasks has the same order in every run."""

    _numbers = itertools.count()

    def __init__(self, *args: Any, **options: Any) -> None:
        self._number = next(self._numbers)
        super().__init__(*args, **options)

    def __hash__(self) -> int:
        return self._number


class KillableTasks:
    """The tasks of one hub or runner inside this process. `kill` cancels all of them, as SIGKILL would end them."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self.killed = False
        self._loop = loop
        self._tasks: dict[asyncio.Task[Any], None] = {}
        self._context = contextvars.copy_context()
        self._context.run(_GROUP.set, self)

    def spawn(self, work: Coroutine[Any, Any, T]) -> asyncio.Task[T]:
        return self._loop.create_task(work, context=self._context)

    def add(self, task: asyncio.Task[Any]) -> None:
        self._tasks[task] = None
        task.add_done_callback(lambda ended: self._tasks.pop(ended, None))
        if self.killed:
            task.cancel()

    async def kill(self) -> None:
        self.killed = True
        for attempt in range(600):
            for task in [*self._tasks]:
                task.cancel()
            if not self._tasks:
                return
            await asyncio.sleep(0 if attempt < 100 else 0.01)
        raise AssertionError(f"tasks that do not end: {self._tasks}")


def create_task(
    loop: asyncio.AbstractEventLoop,
    work: Coroutine[Any, Any, T],
    *,
    context: contextvars.Context | None = None,
) -> asyncio.Task[T]:
    """The task factory of the loop: a task belongs to the group of the task that creates it."""
    task = _Task(work, loop=loop, context=context)
    group = _GROUP.get() if context is None else context.get(_GROUP)
    if group is not None:
        group.add(task)
    return task


def spawn_outside(work: Coroutine[Any, Any, T]) -> asyncio.Task[T]:
    """Create a task that belongs to no group: the task of an agent."""
    return asyncio.get_running_loop().create_task(work, context=contextvars.Context())
