"""`farsteer` as users run it, except that it dies at a named step: `python -m tests.faults.process FILE runner ...`

FILE is the order: `victim step when count`. At the count-th time that the step is reached after the order was given,
the victim (the process itself, or its youngest agent) is killed with SIGKILL. The product knows nothing of this.
"""

from __future__ import annotations

import asyncio
import functools
import importlib
import os
import signal
import sys
from contextlib import suppress
from pathlib import Path
from typing import Any

HUB_STEPS = (
    "farsteer.hub.services.messages:Messages.send",
    "farsteer.hub.store.sqlite.store:SqliteStore.accept_item",
    "farsteer.hub.store.sqlite.store:SqliteStore.claim_items",
    "farsteer.hub.store.sqlite.store:SqliteStore.append_entries",
    "farsteer.hub.link.machine_links:MachineLinks.call",
    "farsteer.hub.link.connection:RunnerConnection._send",
    "farsteer.hub.link.connection:RunnerConnection._finish_batch",
    "farsteer.storage.writer:Writer._commit",
)
RUNNER_STEPS = (
    "farsteer.runner.runner:Runner.handle",
    "farsteer.runner.session.log:SessionLog.flush",
    "farsteer.runner.journal:Journal.append",
    "farsteer.runner.journal:Journal.confirm",
    "farsteer.runner.session.agent_calls:MessageDelivery.deliver",
    "farsteer.agents.demo.launch:DemoLaunch.send",
    "farsteer.agents.demo.launch:DemoLaunch.answer",
    "farsteer.agents.demo.launch:DemoLaunch._receive",
    "farsteer.link.websocket:RunnerWebSocketTransport.send",
    "farsteer.link.websocket:RunnerWebSocketTransport.receive",
    "farsteer.storage.writer:Writer._commit",
)
AGENT_STEPS = (
    "farsteer.runner.session.agent_calls:MessageDelivery.deliver",
    "farsteer.agents.demo.launch:DemoLaunch.send",
    "farsteer.agents.demo.launch:DemoLaunch.answer",
    "farsteer.agents.demo.launch:DemoLaunch._receive",
    "farsteer.agents.demo.launch:DemoLaunch._open",
)
STEPS = {"hub": HUB_STEPS, "runner": RUNNER_STEPS, "agent": AGENT_STEPS}
WHEN = ("before", "after")


class Orders:
    def __init__(self, path: Path) -> None:
        self._path = path
        self._read: str | None = None
        self._left = 0
        self.agents: list[int] = []

    def reached(self, step: str, when: str) -> None:
        try:
            order = self._path.read_text()
        except FileNotFoundError:
            return
        victim, wanted, moment, count = order.split()
        if (wanted, moment) != (step, when):
            return
        if order != self._read:
            self._read, self._left = order, int(count)
        self._left -= 1
        if self._left == 0:
            self._kill(victim)

    def _kill(self, victim: str) -> None:
        if victim != "agent":
            os.kill(os.getpid(), signal.SIGKILL)
        self._path.unlink(missing_ok=True)
        if self.agents:
            with suppress(ProcessLookupError):
                os.kill(self.agents[-1], signal.SIGKILL)


def _wrap(orders: Orders, step: str) -> None:
    module, _, path = step.partition(":")
    owner_name, _, name = path.partition(".")
    owner = getattr(importlib.import_module(module), owner_name)
    original = getattr(owner, name)

    @functools.wraps(original)
    async def slowly(*args: Any, **named: Any) -> Any:
        orders.reached(step, "before")
        result = await original(*args, **named)
        orders.reached(step, "after")
        return result

    @functools.wraps(original)
    def quickly(*args: Any, **named: Any) -> Any:
        orders.reached(step, "before")
        result = original(*args, **named)
        orders.reached(step, "after")
        return result

    setattr(owner, name, slowly if asyncio.iscoroutinefunction(original) else quickly)


def _notice_agents(orders: Orders) -> None:
    from farsteer.agents.process import AgentProcess

    original = AgentProcess.__init__

    @functools.wraps(original)
    def begin(self: AgentProcess, *args: Any, **named: Any) -> None:
        original(self, *args, **named)
        orders.agents.append(self.pid)

    AgentProcess.__init__ = begin


def main() -> int:
    order, kind, *rest = sys.argv[1:]
    orders = Orders(Path(order))
    for step in HUB_STEPS if kind == "hub" else (*RUNNER_STEPS, *AGENT_STEPS[-1:]):
        _wrap(orders, step)
    if kind == "runner":
        _notice_agents(orders)
    from farsteer.cli.main import main as farsteer

    return farsteer([kind, *rest])


if __name__ == "__main__":
    sys.exit(main())
