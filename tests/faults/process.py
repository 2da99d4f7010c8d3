"""`farsteer` with a kill at a named step: `python -m tests.faults.process FILE runner ...`

FILE contains the order `victim step when count`. When the step is reached for the count-th time after the order was
written, the victim (the process itself, or its newest agent) gets SIGKILL, and the file `kills` beside it a line. The
product has no code for this.
"""

from __future__ import annotations

import asyncio
import functools
import importlib
import os
import signal
import sys
from collections.abc import Sequence
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
    "farsteer.runner.session.agent_calls:PromptDelivery.deliver",
    "farsteer.agents.demo.launch:DemoLaunch.send",
    "farsteer.agents.demo.launch:DemoLaunch.answer",
    "farsteer.agents.demo.launch:DemoLaunch._receive",
    "farsteer.link.websocket:RunnerWebSocketTransport.send",
    "farsteer.link.websocket:RunnerWebSocketTransport.receive",
    "farsteer.storage.writer:Writer._commit",
)
AGENT_STEPS = (
    "farsteer.runner.session.agent_calls:PromptDelivery.deliver",
    "farsteer.agents.demo.launch:DemoLaunch.send",
    "farsteer.agents.demo.launch:DemoLaunch.answer",
    "farsteer.agents.demo.launch:DemoLaunch._receive",
    "farsteer.agents.demo.launch:DemoLaunch._open",
)
STEPS = {"hub": HUB_STEPS, "runner": RUNNER_STEPS, "agent": AGENT_STEPS}
WHEN = ("before", "after")


class KillOrder:
    """The order in a file. It is read at every step, because it may change at any time."""

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
            self._kill(victim, step, when)

    def _kill(self, victim: str, step: str, when: str) -> None:
        self._path.unlink(missing_ok=True)
        if victim == "agent":
            with suppress(ProcessLookupError, IndexError):
                os.kill(self.agents[-1], signal.SIGKILL)
                self._record(f"{victim} {when} {step}")
        else:
            self._record(f"{victim} {when} {step}")
            os.kill(os.getpid(), signal.SIGKILL)

    def _record(self, kill: str) -> None:
        kills = os.open(self._path.with_name("kills"), os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
        os.write(kills, f"{kill}\n".encode())
        os.close(kills)


def import_steps() -> None:
    for step in {step for steps in STEPS.values() for step in steps}:
        importlib.import_module(step.partition(":")[0])


def _wrap(kill_order: KillOrder, step: str) -> None:
    module, _, path = step.partition(":")
    owner_name, _, name = path.partition(".")
    owner = getattr(importlib.import_module(module), owner_name)
    original = getattr(owner, name)

    @functools.wraps(original)
    async def async_step(*args: Any, **named: Any) -> Any:
        kill_order.reached(step, "before")
        result = await original(*args, **named)
        kill_order.reached(step, "after")
        return result

    @functools.wraps(original)
    def sync_step(*args: Any, **named: Any) -> Any:
        kill_order.reached(step, "before")
        result = original(*args, **named)
        kill_order.reached(step, "after")
        return result

    setattr(owner, name, async_step if asyncio.iscoroutinefunction(original) else sync_step)


def _record_agents(kill_order: KillOrder) -> None:
    from farsteer.agents.process import AgentProcess

    original = AgentProcess.__init__

    @functools.wraps(original)
    def init(self: AgentProcess, *args: Any, **named: Any) -> None:
        original(self, *args, **named)
        kill_order.agents.append(self.pid)

    AgentProcess.__init__ = init


def _use_recording_agent(ledger: Path) -> None:
    from farsteer.agents.demo import adapter

    script = Path(__file__).with_name("agent.py")
    adapter.ARGV = (sys.executable, "-I", str(script), str(ledger))


def main(argv: Sequence[str]) -> int:
    path, kind, *rest = argv
    kill_order = KillOrder(Path(path))
    for step in HUB_STEPS if kind == "hub" else (*RUNNER_STEPS, *AGENT_STEPS[-1:]):
        _wrap(kill_order, step)
    if kind == "runner":
        _record_agents(kill_order)
        _use_recording_agent(Path(path).with_name("ledger"))
    from farsteer.cli.main import main as farsteer

    return farsteer([kind, *rest])


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
