"""The demo agent and the simulated Droid as real processes, with a record of their launches."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Sequence
from contextlib import suppress
from typing import Any

import psutil
from msgspec.structs import replace

from farsteer.agents.base import Adapter, Launch, LaunchPlan, Output, Sink
from farsteer.agents.demo.adapter import DemoAdapter
from farsteer.agents.droid.adapter import DroidAdapter
from farsteer.core.ids import new_id
from farsteer.core.launch import LaunchMode
from tests.support.eventually import eventually

_HOPELESS = 0.3
"""How long a process may take that will never be ready; the others have all the time of a busy machine."""


class Tap:
    """A sink that records its outputs and can still be used when the agent is gone."""

    def __init__(self, sink: Sink) -> None:
        self._sink = sink
        self.outputs: list[Output] = []
        self.cut = False
        """Nobody is at the other end any more."""

    async def put(self, outputs: Sequence[Output]) -> None:
        self.outputs += outputs
        if not self.cut:
            await self._sink.put(outputs)


class Recording(Adapter):
    """A mixin in front of a real adapter that records every launch."""

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        self.plans: list[LaunchPlan] = []
        """Every start that was asked for, in order."""
        self.launches: list[Launch] = []
        self.taps: list[Tap] = []
        self.errors: list[BaseException] = []
        """What the starts that failed have said."""
        self.refusals: deque[Exception] = deque()
        """The next starts fail with these, one each."""
        self.gate = asyncio.Event()
        """Closed (`clear`), no start goes on."""
        self.gate.set()

    def can(self, **capabilities: bool) -> None:
        """Change the declared capabilities."""
        self.capabilities = replace(self.capabilities, **capabilities)

    async def start(self, plan: LaunchPlan, sink: Sink) -> Launch:
        self.plans.append(plan)
        tap = Tap(sink)
        try:
            await self.gate.wait()
            if self.refusals:
                raise self.refusals.popleft()
            launch = await super().start(self.bent(plan), tap)
        except BaseException as error:
            self.errors.append(error)
            raise
        self.launches.append(launch)
        self.taps.append(tap)
        return launch

    def bent(self, plan: LaunchPlan) -> LaunchPlan:
        """Return the plan that the agent gets."""
        return plan

    async def kill_all(self) -> None:
        """Kill every process. Their output is discarded."""
        for tap in self.taps:
            tap.cut = True
        for launch in self.launches:
            with suppress(psutil.NoSuchProcess):
                psutil.Process(launch.pid).kill()
            await launch._process.wait()  # pyright: ignore[reportAttributeAccessIssue]

    @property
    def starts(self) -> list[LaunchMode]:
        return [plan.decision.start for plan in self.plans]

    @property
    def launch(self) -> Launch:
        return self.launches[-1]

    async def started(self, count: int) -> Launch:
        """Return the `count`th launch that succeeded."""
        await eventually(lambda: len(self.launches) >= count)
        return self.launches[count - 1]

    async def asked(self, count: int) -> LaunchPlan:
        """Return the plan of the `count`th start, whether or not it succeeds."""
        await eventually(lambda: len(self.plans) >= count)
        return self.plans[count - 1]


class RecordedDemo(Recording, DemoAdapter):
    """What a test may ask for: see `__init__`."""

    def __init__(self) -> None:
        super().__init__()
        self.behave: deque[str | None] = deque()
        """What the next processes do at their start, one each."""
        self.names_itself = False
        self.blind = False
        """Its store cannot be looked into."""

    def has_transcript(self, native_id: str, state_dir: str) -> bool:
        return not self.blind and super().has_transcript(native_id, state_dir)

    def learn_ids(self) -> None:
        """Behave as an agent that chooses the native id itself."""
        self.names_itself = True
        self.can(caller_chosen_id=False)

    def bent(self, plan: LaunchPlan) -> LaunchPlan:
        how = self.behave.popleft() if self.behave else None
        if how is not None:
            patience = _HOPELESS if how in ("hang-at-start", "talk-at-start") else plan.startup_timeout
            plan = replace(plan, options={**plan.options, "demo": how}, startup_timeout=patience)
        if self.names_itself and plan.decision.start is LaunchMode.CREATE:
            plan = replace(plan, decision=replace(plan.decision, native_id=new_id()))
        return plan


class RecordedDroid(Recording, DroidAdapter):
    pass
