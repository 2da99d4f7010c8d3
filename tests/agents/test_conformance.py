"""The suite itself: it refuses what breaks a rule, and accepts an adapter that can do little and says so."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import ClassVar

import pytest

from farsteer.agents.base import (
    Adapter,
    ApprovalAsked,
    ApprovalWithdrawn,
    DeltaEmitted,
    EventEmitted,
    Exited,
    Launch,
    LaunchPlan,
    Output,
    Prompt,
    Sink,
    TurnEnded,
)
from farsteer.agents.conformance import AdapterConformance, Script
from farsteer.agents.conformance.audit import audit
from farsteer.agents.demo.adapter import ARGV, DemoAdapter
from farsteer.agents.demo.launch import DemoLaunch
from farsteer.core.approvals import Approval, ApprovalKind
from farsteer.core.capabilities import Capabilities
from farsteer.core.events import AgentMessage, Delta, DeltaKind, FilesRestored, SessionEvent, TurnEndReason
from farsteer.core.modes import PermissionMode, ReasoningEffort
from farsteer.core.session import StoredConversation


class ModestLaunch(DemoLaunch):
    """Refuses what it did not declare, as the contract's defaults do."""

    async def steer(self, prompt: Prompt) -> None:
        await Launch.steer(self, prompt)

    async def restore_files(self, message_id: str, after: str | None) -> FilesRestored:
        return await Launch.restore_files(self, message_id, after)

    async def set_permission_mode(self, mode: PermissionMode) -> None:
        await Launch.set_permission_mode(self, mode)

    async def set_model(self, model: str) -> None:
        await Launch.set_model(self, model)

    async def set_effort(self, effort: ReasoningEffort) -> None:
        await Launch.set_effort(self, effort)


class ModestAdapter(DemoAdapter):
    capabilities: ClassVar[Capabilities] = Capabilities(caller_chosen_id=True)

    async def start(self, plan: LaunchPlan, sink: Sink) -> Launch:
        self.check(plan)
        return await ModestLaunch.start(ARGV, plan, sink)

    async def conversations(
        self, state_dir: str, directory: str | None, limit: int
    ) -> list[StoredConversation]:
        return await Adapter.conversations(self, state_dir, directory, limit)

    async def history(self, native_id: str, state_dir: str) -> tuple[StoredConversation, list[SessionEvent]]:
        return await Adapter.history(self, native_id, state_dir)


class TestModest(AdapterConformance):
    """Three lines are enough for a third party; what has no prompt is skipped."""

    script = Script(answer="say hello", long="work 1000 0.05")
    turns = 2

    def adapter(self) -> ModestAdapter:
        return ModestAdapter()


END = TurnEnded(turn_id="t", reason=TurnEndReason.END_TURN)
GONE = Exited(exit_code=0, reason="stopped")
ASKED = ApprovalAsked(Approval(id="a", kind=ApprovalKind.PLAN, title="?", created_at=1))


def said(text: str) -> Output:
    return EventEmitted(AgentMessage(message_id="m", text=text))


def streamed(text: str, offset: int) -> Output:
    return DeltaEmitted(Delta(message_id="m", kind=DeltaKind.MESSAGE, text=text, offset=offset))


def test_the_audit_accepts_what_is_right() -> None:
    audit([streamed("a", 0), streamed("b", 1), said("ab"), ASKED, ApprovalWithdrawn("a"), END, GONE], ["t"])


def test_the_audit_accepts_that_an_agent_begins_a_message_anew() -> None:
    audit([streamed("a", 0), streamed("a", 0), streamed("b", 1), said("ab"), END, GONE], ["t"])


@pytest.mark.parametrize(
    ("outputs", "complaint"),
    [
        ([GONE], "exactly once"),
        ([END, END, GONE], "exactly once"),
        ([END, TurnEnded(turn_id="u", reason=TurnEndReason.END_TURN), GONE], "exactly once"),
        ([END], "Exited"),
        ([END, GONE, said("x")], "last of all"),
        ([END, GONE, GONE], "last of all"),
        ([streamed("a", 1), END, GONE], "wrong offset"),
        ([streamed("a", 0), said("b"), END, GONE], "differs"),
        ([streamed("a", 0), streamed("b", 0), said("ab"), END, GONE], "differs"),
        ([said("a"), said("a"), END, GONE], "said twice"),
        ([said("a"), streamed("b", 0), END, GONE], "after the whole"),
        ([ASKED, ASKED, END, GONE], "asked twice"),
        ([ApprovalWithdrawn("a"), END, GONE], "never asked"),
    ],
    ids=range(13),
)
def test_the_audit_refuses_what_breaks_a_rule(outputs: Sequence[Output], complaint: str) -> None:
    with pytest.raises(AssertionError, match=complaint):
        audit(outputs, ["t"])


class Spoiler:
    """A sink that passes on what a careless adapter would have said."""

    def __init__(self, sink: Sink, spoil: Callable[[Output], Sequence[Output]]) -> None:
        self._sink = sink
        self._spoil = spoil

    async def put(self, outputs: Sequence[Output]) -> None:
        await self._sink.put([spoiled for output in outputs for spoiled in self._spoil(output)])


def _twice(output: Output) -> Sequence[Output]:
    return [output, output] if isinstance(output, TurnEnded) else [output]


def _silent(output: Output) -> Sequence[Output]:
    return [] if isinstance(output, EventEmitted) else [output]


@pytest.mark.parametrize("spoil", [_twice, _silent])
def test_a_careless_adapter_fails_the_suite(
    spoil: Callable[[Output], Sequence[Output]], tmp_path: Path
) -> None:
    class Careless(DemoAdapter):
        async def start(self, plan: LaunchPlan, sink: Sink) -> Launch:
            return await super().start(plan, Spoiler(sink, spoil))

    class Suite(AdapterConformance):
        script = Script(answer="say hello", long="")

        def adapter(self) -> DemoAdapter:
            return Careless()

    with pytest.raises(AssertionError):
        Suite().test_a_turn_says_something_and_then_ends(tmp_path)


def test_an_adapter_that_does_more_than_it_declares_fails_the_suite(tmp_path: Path) -> None:
    class Boastful(DemoAdapter):
        capabilities: ClassVar[Capabilities] = Capabilities(caller_chosen_id=True)

    class Suite(TestModest):
        def adapter(self) -> Boastful:
            return Boastful()

    with pytest.raises(pytest.fail.Exception):
        Suite().test_the_model_changes_or_is_refused(tmp_path)
