"""Kills what ended agents left behind. One pass over the machine's processes serves every agent that has just ended.

A pass takes milliseconds and runs in a thread, so that many agents that end together cost little and do not block the
event loop. Their exits are then reported to the loop a few at a time, so that other work goes on in between.
"""

from __future__ import annotations

import asyncio
import logging
import threading
import time
from collections import deque
from collections.abc import Callable, Sequence, Set
from typing import TYPE_CHECKING, NamedTuple

from farsteer.agents.process import posix
from farsteer.agents.process.cgroups import LaunchGroup

if TYPE_CHECKING:
    import psutil

_REPORTED_TOGETHER = 4
"""How many ends are reported in one iteration of the event loop. What follows from each takes about a millisecond."""
_GONE_SECONDS = 1.0
"""How long a pass waits for what it has killed. A process that waits for a disk may take longer."""
_REMOVALS = 10
_REMOVAL_SECONDS = 0.005

_logger = logging.getLogger(__name__)


class Leader(NamedTuple):
    """The process of an agent, and what names its descendants."""

    pid: int
    mark: str
    group: LaunchGroup | None = None


class _Sweep(NamedTuple):
    leader: Leader
    loop: asyncio.AbstractEventLoop
    done: Callable[[], object]


class Sweeper:
    """Use the one `SWEEPER` of the process."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._requests: list[_Sweep] = []
        self._is_running = False
        self._leaders: dict[int, Leader] = {}
        self._left_groups: list[LaunchGroup] = []
        """Groups whose processes have been killed and are not gone yet."""
        self._reports: dict[asyncio.AbstractEventLoop, deque[Callable[[], object]]] = {}

    def add_leader(self, leader: Leader) -> None:
        """This process is an agent of ours. It is never left over from another one, so no pass looks at it."""
        self._leaders[leader.pid] = leader

    def remove_leader(self, pid: int) -> None:
        """The process is about to be reaped."""
        self._leaders.pop(pid, None)

    def sweep(self, leader: Leader, done: Callable[[], object]) -> None:
        """Kill what an agent left behind that has exited and is not reaped. Then call `done` in this loop."""
        request = _Sweep(leader, asyncio.get_running_loop(), done)
        with self._lock:
            self._requests.append(request)
            if self._is_running:
                return
            self._is_running = True
        threading.Thread(target=self._serve, name="sweeper", daemon=True).start()

    def kill_all(self) -> None:
        """Send SIGKILL to every agent and to what they have started. Returns when that is done, within milliseconds."""
        leaders = list(self._leaders.values())
        for leader in leaders:
            posix.signal_group(leader.pid, posix.SIGKILL)
        if leaders:
            kill_leftovers(leaders)
        groups = [leader.group for leader in leaders if leader.group is not None]
        for _ in range(_REMOVALS):
            groups = [group for group in groups if not group.remove()]
            if not groups:
                break
            time.sleep(_REMOVAL_SECONDS)

    def _serve(self) -> None:
        while True:
            with self._lock:
                requests, self._requests = self._requests, []
                if not requests:
                    self._is_running = False
                    return
            leaders = [request.leader for request in requests]
            try:
                killed = kill_leftovers(leaders, self._leaders.keys())
                # Whoever is told of an end may count on it that nothing of the agent runs any more.
                posix.wait_gone(killed, _GONE_SECONDS)
                groups = [leader.group for leader in leaders if leader.group is not None]
                self._left_groups = [group for group in self._left_groups + groups if not group.remove()]
            except Exception:
                _logger.exception("could not search for processes that agents left behind")
            for loop in {request.loop for request in requests}:
                done = [request.done for request in requests if request.loop is loop]
                try:
                    loop.call_soon_threadsafe(self._add_reports, loop, done)
                except RuntimeError:
                    _logger.debug("an event loop was closed before the end of its agents")

    def _add_reports(self, loop: asyncio.AbstractEventLoop, done: list[Callable[[], object]]) -> None:
        waiting = self._reports.get(loop)
        if waiting is not None:
            waiting.extend(done)
            return
        self._reports[loop] = deque(done)
        # Not at once: several passes may have ended since the last iteration.
        loop.call_soon(self._report, loop)

    def _report(self, loop: asyncio.AbstractEventLoop) -> None:
        waiting = self._reports[loop]
        for _ in range(min(_REPORTED_TOGETHER, len(waiting))):
            waiting.popleft()()
        if waiting:
            loop.call_soon(self._report, loop)
        else:
            del self._reports[loop]


def kill_leftovers(leaders: Sequence[Leader], skip: Set[int] = frozenset()) -> list[psutil.Process]:
    """Kill what these agents, which are not reaped yet, have left behind, and return it.

    `skip` are processes not to look at.
    """
    for leader in leaders:
        if leader.group is not None:
            leader.group.kill()
    marks = {leader.mark for leader in leaders}
    return posix.kill_marked(marks.__contains__, {leader.pid for leader in leaders}, skip)


SWEEPER = Sweeper()
