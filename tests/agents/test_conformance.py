"""The conformance suite itself: it fails what breaks a rule, and accepts an adapter with few capabilities."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

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
from farsteer.agents.conformance import AdapterConformance, Prompts
from farsteer.agents.conformance.harness import check_output_rules
from farsteer.agents.demo.adapter import ARGV, DemoAdapter
from farsteer.agents.demo.launch import DemoLaunch
from farsteer.core.approvals import Approval, ApprovalKind
from farsteer.core.capabilities import Capabilities
from farsteer.core.events import AgentMessage, Delta, DeltaKind, FilesRestored, SessionEvent, TurnEndReason
from farsteer.core.modes import PermissionMode, ReasoningEffort
from farsteer.core.session import StoredConversation

pytestmark = pytest.mark.slow


class ModestLaunch(DemoLaunch):
    """A launch without optional methods: it refuses them as `Launch` does by default."""

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
    capabilities = Capabilities(caller_chosen_id=True)

    async def start(self, plan: LaunchPlan, sink: Sink) -> Launch:
        self.check_plan(plan)
        return await ModestLaunch.start(ARGV, plan, sink)

    async def list_conversations(
        self, state_dir: str, directory: str | None, limit: int
    ) -> list[StoredConversation]:
        return await Adapter.list_conversations(self, state_dir, directory, limit)

    async def read_history(
        self, native_id: str, state_dir: str
    ) -> tuple[StoredConversation, list[SessionEvent]]:
        return await Adapter.read_history(self, native_id, state_dir)


class TestModest(AdapterConformance):
    """Two prompts and an adapter are enough; contracts without a prompt are skipped."""

    prompts = Prompts(answer="say hello", long="work 1000 0.05")
    turn_count = 2

    def adapter(self) -> ModestAdapter:
        return ModestAdapter()


END = TurnEnded(turn_id="t", reason=TurnEndReason.END_TURN)
EXITED = Exited(exit_code=0, reason="stopped")
ASKED = ApprovalAsked(Approval(id="a", kind=ApprovalKind.PLAN, title="?", created_at=1))


def message(text: str) -> Output:
    return EventEmitted(AgentMessage(message_id="m", text=text))


def delta(text: str, offset: int) -> Output:
    return DeltaEmitted(Delta(message_id="m", kind=DeltaKind.MESSAGE, text=text, offset=offset))


def test_correct_outputs_are_accepted() -> None:
    check_output_rules(
        [delta("a", 0), delta("b", 1), message("ab"), ASKED, ApprovalWithdrawn("a"), END, EXITED], ["t"]
    )


def test_a_message_that_starts_again_is_accepted() -> None:
    check_output_rules([delta("a", 0), delta("a", 0), delta("b", 1), message("ab"), END, EXITED], ["t"])


@pytest.mark.parametrize(
    ("outputs", "error"),
    [
        ([EXITED], "exactly once"),
        ([END, END, EXITED], "exactly once"),
        ([END, TurnEnded(turn_id="u", reason=TurnEndReason.END_TURN), EXITED], "exactly once"),
        ([END], "Exited"),
        ([END, EXITED, message("x")], "last output"),
        ([END, EXITED, EXITED], "last output"),
        ([delta("a", 1), END, EXITED], "wrong offset"),
        ([delta("a", 0), message("b"), END, EXITED], "differs"),
        ([delta("a", 0), delta("b", 0), message("ab"), END, EXITED], "differs"),
        ([message("a"), message("a"), END, EXITED], "emitted twice"),
        ([message("a"), delta("b", 0), END, EXITED], "follows the whole"),
        ([ASKED, ASKED, END, EXITED], "asked twice"),
        ([ApprovalWithdrawn("a"), END, EXITED], "never asked"),
    ],
    ids=range(13),
)
def test_outputs_that_break_a_rule_are_rejected(outputs: Sequence[Output], error: str) -> None:
    with pytest.raises(AssertionError, match=error):
        check_output_rules(outputs, ["t"])


class ChangingSink:
    """A sink that changes outputs as a faulty adapter would."""

    def __init__(self, sink: Sink, change: Callable[[Output], Sequence[Output]]) -> None:
        self._sink = sink
        self._change = change

    async def put(self, outputs: Sequence[Output]) -> None:
        await self._sink.put([changed for output in outputs for changed in self._change(output)])


def _duplicate_end(output: Output) -> Sequence[Output]:
    return [output, output] if isinstance(output, TurnEnded) else [output]


def _drop_events(output: Output) -> Sequence[Output]:
    return [] if isinstance(output, EventEmitted) else [output]


@pytest.mark.parametrize("change", [_duplicate_end, _drop_events])
def test_a_faulty_adapter_fails_the_suite(
    change: Callable[[Output], Sequence[Output]], tmp_path: Path
) -> None:
    class Faulty(DemoAdapter):
        async def start(self, plan: LaunchPlan, sink: Sink) -> Launch:
            return await super().start(plan, ChangingSink(sink, change))

    class Suite(AdapterConformance):
        prompts = Prompts(answer="say hello", long="")

        def adapter(self) -> DemoAdapter:
            return Faulty()

    with pytest.raises(AssertionError):
        Suite().test_a_turn_emits_a_message_and_then_ends(tmp_path)


def test_an_adapter_that_does_more_than_it_declares_fails_the_suite(tmp_path: Path) -> None:
    class Undeclared(DemoAdapter):
        capabilities = Capabilities(caller_chosen_id=True)

    class Suite(TestModest):
        def adapter(self) -> Undeclared:
            return Undeclared()

    with pytest.raises(pytest.fail.Exception):
        Suite().test_the_model_changes_or_is_refused(tmp_path)
