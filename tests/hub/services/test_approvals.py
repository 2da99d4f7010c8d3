"""Approvals: the inbox, and who may answer. The first answer wins."""

import asyncio

import pytest

from farsteer.core import events as ev
from farsteer.core.approvals import (
    Answer,
    Approval,
    ApprovalKind,
    Option,
    OptionKind,
    Outcome,
    Question,
)
from farsteer.core.commands import AnswerApproval
from farsteer.core.errors import (
    AlreadyAnswered,
    BadRequest,
    Forbidden,
    MachineOffline,
    NotFound,
    Unavailable,
)
from farsteer.core.ids import new_id
from farsteer.hub import Hub, Scope
from farsteer.hub.link import machine_links
from farsteer.link.messages import Call, Reply
from tests.hub.conftest import create
from tests.hub.scripted import ScriptedRunner, caller, refuse, silent

ME = caller(email="me@example.com")
YES = Answer(outcome=Outcome.APPROVED)


def permission(id: str, created_at: int = 1) -> Approval:
    options = (
        Option(id="y", name="Yes", kind=OptionKind.ALLOW_ONCE),
        Option(id="n", name="No", kind=OptionKind.REJECT_ONCE),
    )
    return Approval(
        id=id, kind=ApprovalKind.PERMISSION, title="run it?", created_at=created_at, options=options
    )


async def asks(runner: ScriptedRunner, session_id: str, approval: Approval) -> str:
    await runner.append(session_id, ev.TurnStart(turn_id="t"), ev.ApprovalRequested(approval=approval))
    return approval.id


async def test_the_inbox_lists_the_approvals_of_all_sessions_oldest_first(
    hub: Hub, runner: ScriptedRunner, session_id: str
) -> None:
    other = await create(hub, runner, title="Other")
    late = await asks(runner, session_id, permission(new_id(), created_at=20))
    early = await asks(runner, other, permission(new_id(), created_at=10))
    inbox = (await hub.approvals.inbox(ME)).approvals
    assert [view.approval.id for view in inbox] == [early, late]
    assert (inbox[0].session_id, inbox[0].session_title, inbox[0].agent) == (other, "Other", "demo")
    assert (await hub.approvals.inbox(caller("other"))).approvals == []
    view = await hub.sessions.get(ME, session_id)
    assert (view.pending_requests_count, view.status) == (1, ev.SessionStatus.WAITING)


async def test_the_first_answer_wins_and_the_second_is_told_who_was_first(
    hub: Hub, runner: ScriptedRunner, session_id: str
) -> None:
    approval = await asks(runner, session_id, permission(new_id()))
    answered = await hub.approvals.answer(ME, session_id, approval, YES)
    assert (answered.ok, answered.outcome, answered.by) == (True, Outcome.APPROVED, "me@example.com")
    (command,) = runner.commands(AnswerApproval)
    assert command.answer == Answer(
        outcome=Outcome.APPROVED, option_id="y", by="me@example.com", identity=ME.identity
    )
    for event_arrived in (False, True):
        if event_arrived:
            resolved = ev.ApprovalResolved(
                approval_id=approval, outcome=Outcome.APPROVED, by="me@example.com", identity=ME.identity
            )
            await runner.append(session_id, resolved)
        with pytest.raises(AlreadyAnswered) as error:
            await hub.approvals.answer(ME, session_id, approval, Answer(outcome=Outcome.DENIED))
        assert error.value.details == {
            "outcome": "approved",
            "by": "me@example.com",
            "identity": {"tokenId": "test", "label": "default", "claimedEmail": "me@example.com"},
        }
    assert len(runner.commands(AnswerApproval)) == 1
    assert (await hub.approvals.inbox(ME)).approvals == []


async def test_one_of_two_simultaneous_answers_wins(
    hub: Hub, runner: ScriptedRunner, session_id: str
) -> None:
    approval = await asks(runner, session_id, permission(new_id()))
    results = await asyncio.gather(
        hub.approvals.answer(ME, session_id, approval, YES),
        hub.approvals.answer(ME, session_id, approval, Answer(outcome=Outcome.DENIED)),
        return_exceptions=True,
    )
    assert sorted(type(result).__name__ for result in results) == ["AlreadyAnswered", "ApprovalAnswered"]
    assert len(runner.commands(AnswerApproval)) == 1


async def test_an_answer_that_did_not_arrive_leaves_the_approval_open(
    hub: Hub, runner: ScriptedRunner, session_id: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    approval = await asks(runner, session_id, permission(new_id()))
    monkeypatch.setattr(machine_links, "CALL_SECONDS", 0.05)
    runner.answers[AnswerApproval] = silent
    with pytest.raises(Unavailable):
        await hub.approvals.answer(ME, session_id, approval, YES)
    del runner.answers[AnswerApproval]
    assert (await hub.approvals.answer(ME, session_id, approval, YES)).ok


async def test_an_error_of_the_runner_is_passed_on(hub: Hub, runner: ScriptedRunner, session_id: str) -> None:
    approval = await asks(runner, session_id, permission(new_id()))
    runner.answers[AnswerApproval] = refuse(AlreadyAnswered("timed out", outcome="timed_out", by=None))
    with pytest.raises(AlreadyAnswered) as error:
        await hub.approvals.answer(ME, session_id, approval, YES)
    assert error.value.details["outcome"] == "timed_out"


async def test_answering_an_expired_approval_reports_its_outcome(
    hub: Hub, runner: ScriptedRunner, session_id: str
) -> None:
    approval = await asks(runner, session_id, permission(new_id()))
    await runner.append(session_id, ev.ApprovalResolved(approval_id=approval, outcome=Outcome.TIMED_OUT))
    with pytest.raises(AlreadyAnswered) as error:
        await hub.approvals.answer(ME, session_id, approval, YES)
    assert error.value.details == {"outcome": "timed_out", "by": None, "identity": None}


async def test_an_agent_may_ask_again_under_the_same_id(
    hub: Hub, runner: ScriptedRunner, session_id: str
) -> None:
    approval = await asks(runner, session_id, permission(new_id()))
    await hub.approvals.answer(ME, session_id, approval, YES)
    await runner.append(session_id, ev.ApprovalResolved(approval_id=approval, outcome=Outcome.APPROVED))
    await runner.append(session_id, ev.ApprovalRequested(approval=permission(approval)))
    assert (await hub.approvals.answer(ME, session_id, approval, Answer(outcome=Outcome.DENIED))).ok
    assert len(runner.commands(AnswerApproval)) == 2


async def test_invalid_answers_are_refused_without_calling_the_runner(
    hub: Hub, runner: ScriptedRunner, session_id: str
) -> None:
    approval = await asks(runner, session_id, permission(new_id()))
    for wrong in (
        Answer(outcome=Outcome.APPROVED, option_id="n"),
        Answer(outcome=Outcome.DENIED, option_id="nonsense"),
    ):
        with pytest.raises(BadRequest):
            await hub.approvals.answer(ME, session_id, approval, wrong)
    question = Approval(
        id=new_id(),
        kind=ApprovalKind.QUESTION,
        title="?",
        created_at=1,
        questions=(Question(id="q", text="which?", choices=("a", "b")),),
    )
    await runner.append(session_id, ev.ApprovalRequested(approval=question))
    with pytest.raises(BadRequest):
        await hub.approvals.answer(ME, session_id, question.id, YES)
    right = Answer(outcome=Outcome.APPROVED, answers={"q": ["b"]})
    assert (await hub.approvals.answer(ME, session_id, question.id, right)).ok
    assert [command.answer.answers for command in runner.commands(AnswerApproval)] == [{"q": ["b"]}]
    with pytest.raises(NotFound):
        await hub.approvals.answer(ME, session_id, new_id(), YES)


async def test_answering_needs_the_namespace_the_scope_and_an_online_machine(
    hub: Hub,
) -> None:
    async with ScriptedRunner(hub) as runner:
        session_id = await create(hub, runner)
        approval = await asks(runner, session_id, permission(new_id()))
        with pytest.raises(NotFound):
            await hub.approvals.answer(caller("other"), session_id, approval, YES)
        with pytest.raises(Forbidden):
            await hub.approvals.answer(caller("default", Scope.READ, Scope.WRITE), session_id, approval, YES)
    with pytest.raises(MachineOffline):
        await hub.approvals.answer(ME, session_id, approval, YES)
    assert len((await hub.approvals.inbox(ME)).approvals) == 1


async def test_an_answer_over_a_link_that_breaks_is_not_counted(hub: Hub) -> None:
    runner = ScriptedRunner(hub)
    await runner.connect()
    session_id = await create(hub, runner)
    approval = await asks(runner, session_id, permission(new_id()))
    received: list[Call] = []

    def receive(call: Call) -> Reply | None:
        received.append(call)
        return None

    runner.answers[AnswerApproval] = receive
    answering = asyncio.create_task(hub.approvals.answer(ME, session_id, approval, YES))
    await runner.wait_for(AnswerApproval)
    await runner.disconnect()
    with pytest.raises(MachineOffline):
        await answering
    async with ScriptedRunner(hub, info=runner.info, logs=runner.logs):
        assert (await hub.approvals.answer(ME, session_id, approval, YES)).ok
