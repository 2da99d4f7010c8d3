"""A turn returns its own updates only, all of them, and ends once."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Any, cast

import pytest

from farsteer.client.live_events import Gap, LiveEvent
from farsteer.client.turn import AsyncTurn, TurnResult, TurnUpdate
from farsteer.core import errors
from farsteer.core import events as ev
from farsteer.core.api import ApprovalAnswered, Approve, Deny, MessageAccepted, NewAttachment, SessionView
from farsteer.core.approvals import Approval, ApprovalKind, Outcome
from farsteer.core.errors import ErrorCode
from farsteer.core.events import Delta, DeltaKind, Entry, SessionEvent, ToolStatus, TurnEndReason, role_of
from farsteer.core.live_events import MessageDeltaEvent, MessageReceivedEvent
from farsteer.core.modes import ToolKind
from farsteer.core.queue import ItemState

ITEM = "item"
ASKED = Approval(id="a", kind=ApprovalKind.PERMISSION, title="run ls", created_at=1)


class FakeTurnClient:
    """A client of a session with scripted events, which arrive once the message was sent."""

    def __init__(self, *events: SessionEvent | Delta | LiveEvent, seq: int = 10) -> None:
        self.log: list[Entry] = []
        self.live: list[LiveEvent] = []
        self.start = seq
        self.answers: list[tuple[str, Approve | Deny | bool]] = []
        self.refusal: errors.FarsteerError | None = None
        self.subscribed = False
        self.sent: list[str] = []
        for event in events:
            self.live.append(event if isinstance(event, LiveEvent) else self.event(event))

    def event(self, content: SessionEvent | Delta) -> LiveEvent:
        if isinstance(content, Delta):
            delta = MessageDeltaEvent(namespace="d", session_id="s", delta=content)
            return LiveEvent("message-delta", content=delta)
        seq = self.start + len(self.log) + 1
        entry = Entry(id=f"e{seq}", seq=seq, role=role_of(content), created_at=0, content=content)
        self.log.append(entry)
        received = MessageReceivedEvent(namespace="d", cursor="e-1", session_id="s", message=entry)
        return LiveEvent("message-received", content=received)

    async def session(self, session_id: str) -> SessionView:
        assert self.subscribed
        view = {"seq": self.start}
        return cast("SessionView", type("View", (), view))

    async def messages(self, session_id: str, *, after: int = 0) -> AsyncIterator[Entry]:
        for entry in self.log:
            if entry.seq > after:
                yield entry

    async def send(
        self,
        session_id: str,
        text: str,
        *,
        attachments: Sequence[NewAttachment] = (),
        local_id: str | None = None,
    ) -> MessageAccepted:
        assert self.subscribed, "subscribe before sending, or the beginning is missed"
        self.sent.append(text)
        return MessageAccepted(id=ITEM, local_id=None, state=ItemState.ACCEPTED, position=0)

    async def answer(
        self, session_id: str, approval_id: str, decision: Approve | Deny | bool
    ) -> ApprovalAnswered:
        self.answers.append((approval_id, decision))
        if self.refusal is not None:
            raise self.refusal
        return ApprovalAnswered(ok=True, outcome=Outcome.APPROVED, by=None)

    @asynccontextmanager
    async def follow(self, session_id: str) -> AsyncIterator[AsyncIterator[LiveEvent]]:
        self.subscribed = True

        async def events() -> AsyncIterator[LiveEvent]:
            for event in self.live:
                yield event
            await asyncio.Event().wait()

        try:
            yield events()
        finally:
            self.subscribed = False


def start(turn: str = "t", item: str | None = ITEM) -> ev.TurnStart:
    return ev.TurnStart(turn_id=turn, item_id=item)


def end(
    reason: TurnEndReason = TurnEndReason.END_TURN, turn: str = "t", error: str | None = None
) -> ev.TurnEnd:
    return ev.TurnEnd(turn_id=turn, reason=reason, error=error)


def says(text: str, message_id: str = "m") -> ev.AgentMessage:
    return ev.AgentMessage(message_id=message_id, text=text)


def delta(text: str, offset: int = 0, message_id: str = "m", kind: DeltaKind = DeltaKind.MESSAGE) -> Delta:
    return Delta(message_id=message_id, kind=kind, text=text, offset=offset)


async def follow(client: FakeTurnClient, **options: Any) -> tuple[list[TurnUpdate], TurnResult]:
    turn = AsyncTurn(client, "s", "hello", **options)
    async with asyncio.timeout(5):
        updates = [update async for update in turn]
    assert turn.result is not None
    assert not client.subscribed, "a turn that ended has closed its subscription"
    return updates, turn.result


async def test_the_answer_streams_once_and_is_the_result() -> None:
    client = FakeTurnClient(start(), delta("Hel"), delta("lo", 3), says("Hello!"), end())
    updates, result = await follow(client)
    assert client.sent == ["hello"]
    assert [update.text for update in updates if update.text] == ["Hel", "lo", "!"]
    assert (str(result), result.reason, result.turn_id) == ("Hello!", TurnEndReason.END_TURN, "t")


async def test_the_answer_is_the_last_message_without_thoughts() -> None:
    client = FakeTurnClient(
        start(),
        says("let me look", "m1"),
        delta("hmm", message_id="th", kind=DeltaKind.THOUGHT),
        ev.AgentThought(message_id="th", text="hmm"),
        says("done", "m2"),
        end(),
    )
    updates, result = await follow(client)
    assert result.text == "done"
    assert "".join(update.text for update in updates) == "let me lookdone"


async def test_turns_that_run_before_are_ignored() -> None:
    client = FakeTurnClient(
        delta("old", message_id="before"),
        says("older answer", "before"),
        end(turn="other"),
        start("other-2", item="somebody else's"),
        says("not for us", "m2"),
        end(turn="other-2"),
        start(),
        says("for us", "m3"),
        end(turn="other"),
        end(),
    )
    updates, result = await follow(client)
    assert result.text == "for us"
    assert "".join(update.text for update in updates) == "for us"


async def test_deltas_that_arrive_before_the_start_are_kept() -> None:
    client = FakeTurnClient(
        delta("zzz", message_id="old"),
        delta("He"),
        delta("llo", 2),
        says("zzz!", "old"),
        end(turn="other"),
        start(),
        says("Hello"),
        end(),
    )
    updates, result = await follow(client)
    assert [update.text for update in updates if update.text] == ["He", "llo"]
    assert result.text == "Hello"


async def test_a_delta_that_arrives_before_an_earlier_message_waits_for_it() -> None:
    """As after a reconnect: deltas are live at once, stored entries are caught up with."""
    early = Delta(message_id="m2", kind=DeltaKind.MESSAGE, text="wo", after=12)
    client = FakeTurnClient(
        start(), early, says("Hello ", "m1"), delta("rld", 2, "m2"), says("world", "m2"), end()
    )
    assert client.log[1].seq == early.after
    updates, result = await follow(client)
    assert [update.text for update in updates if update.text] == ["Hello ", "wo", "rld"]
    assert result.text == "world"


@pytest.mark.parametrize(
    ("state", "reason"),
    [
        (ItemState.CANCELLED, TurnEndReason.CANCELLED),
        (ItemState.FAILED, TurnEndReason.FAILED),
        (ItemState.UNKNOWN, TurnEndReason.LOST),
    ],
)
async def test_a_message_that_never_became_a_turn_has_a_result(
    state: ItemState, reason: TurnEndReason
) -> None:
    client = FakeTurnClient(
        ev.QueueUpdate(item_id="other", state=ItemState.CANCELLED),
        ev.QueueUpdate(item_id=ITEM, state=ItemState.QUEUED),
        ev.QueueUpdate(item_id=ITEM, state=state, reason="because"),
    )
    _, result = await follow(client)
    assert (result.turn_id, result.reason, result.error) == (None, reason, "because")


async def test_a_gap_is_filled_from_the_log() -> None:
    client = FakeTurnClient(start(), delta("He"), seq=100)
    for missed in (says("Hello"), says("and more", "m2"), end()):
        client.event(missed)
    client.live.append(Gap("gap", cursor="x-1"))
    updates, result = await follow(client)
    assert "".join(update.text for update in updates) == "Helloand more"
    assert result.text == "and more"


async def test_an_entry_that_comes_twice_counts_once() -> None:
    client = FakeTurnClient(start(), says("one"), end())
    client.live.insert(2, client.live[1])
    updates, _ = await follow(client)
    assert len(updates) == 3


async def test_a_deleted_session_ends_the_turn() -> None:
    client = FakeTurnClient(start(), LiveEvent("session-removed"))
    with pytest.raises(errors.NotFound, match="deleted"):
        await AsyncTurn(client, "s", "hello").finish()
    assert not client.subscribed


async def test_without_a_callback_nothing_is_answered() -> None:
    client = FakeTurnClient(start(), ev.ApprovalRequested(approval=ASKED), end())
    updates, _ = await follow(client)
    assert [update.approval for update in updates if update.approval] == [ASKED]
    assert client.answers == []


async def test_the_callback_decides_and_none_leaves_it_open() -> None:
    for decision, answers in (
        (True, [("a", True)]),
        (Deny(message="no"), [("a", Deny(message="no"))]),
        (None, []),
    ):
        client = FakeTurnClient(start(), ev.ApprovalRequested(approval=ASKED), end())
        await follow(client, on_approval=lambda asked, decision=decision: decision)
        assert client.answers == answers


async def test_the_callback_may_be_a_coroutine_function() -> None:
    async def decide(asked: Approval) -> bool:
        await asyncio.sleep(0)
        return asked.title == "run ls"

    client = FakeTurnClient(start(), ev.ApprovalRequested(approval=ASKED), end())
    await follow(client, on_approval=decide)
    assert client.answers == [("a", True)]


async def test_an_approval_that_somebody_else_answered_is_no_error() -> None:
    client = FakeTurnClient(start(), ev.ApprovalRequested(approval=ASKED), end())
    client.refusal = errors.AlreadyAnswered("somebody was first")
    _, result = await follow(client, on_approval=lambda asked: True)
    assert result.reason is TurnEndReason.END_TURN


@pytest.mark.parametrize(
    ("reason", "kind", "code"),
    [
        (TurnEndReason.FAILED, errors.AgentError, ErrorCode.AGENT_FAILED),
        (TurnEndReason.CRASHED, errors.AgentError, ErrorCode.AGENT_DIED),
        (TurnEndReason.LOST, errors.Unavailable, ErrorCode.UNAVAILABLE),
        (TurnEndReason.CANCELLED, errors.Conflict, ErrorCode.TURN_CANCELLED),
    ],
)
async def test_a_turn_that_did_not_finish_raises(
    reason: TurnEndReason, kind: type[errors.FarsteerError], code: ErrorCode
) -> None:
    _, result = await follow(FakeTurnClient(start(), says("so far"), end(reason, error="why")))
    with pytest.raises(kind, match="why") as caught:
        result.check()
    assert caught.value.code is code
    assert caught.value.details["text"] == "so far"


async def test_a_failed_send_closes_the_subscription() -> None:
    class Refusing(FakeTurnClient):
        async def send(self, *_: Any, **__: Any) -> MessageAccepted:
            raise errors.Conflict("full", code=ErrorCode.QUEUE_FULL)

    client = Refusing()
    with pytest.raises(errors.Conflict, match="full"):
        await anext(AsyncTurn(client, "s", "hello"))
    assert not client.subscribed


async def test_leaving_early_closes_the_subscription() -> None:
    client = FakeTurnClient(start(), says("one"), end())
    async with AsyncTurn(client, "s", "hello") as turn:
        await anext(turn)
    assert not client.subscribed
    with pytest.raises(errors.Conflict, match="no longer followed"):
        await turn.finish()


async def test_an_approval_without_a_callback_is_an_error_where_answers_are_needed() -> None:
    client = FakeTurnClient(start(), ev.ApprovalRequested(approval=ASKED), seq=3)
    with pytest.raises(errors.ApprovalNeeded) as raised:
        await follow(client, needs_answers=True)
    error = raised.value
    assert (error.approval, error.session_id, error.item_id) == (ASKED, "s", ITEM)
    assert error.code is ErrorCode.APPROVAL_NEEDED
    for call in ("session.approve('a')", "session.deny('a')", "session.wait('item')"):
        assert call in error.message
    assert not client.subscribed
    assert client.answers == []


async def test_an_approval_that_was_answered_meanwhile_needs_no_answer() -> None:
    resolved = ev.ApprovalResolved(approval_id="a", outcome=Outcome.APPROVED)
    client = FakeTurnClient(start(), ev.ApprovalRequested(approval=ASKED), resolved, end())
    client.live = [Gap("gap")]
    asked: list[Approval] = []
    await follow(client, on_approval=asked.append)
    assert asked == []
    await follow(client, needs_answers=True)


async def test_a_turn_that_takes_too_long_is_no_longer_followed_and_says_how_to_go_on() -> None:
    client = FakeTurnClient(start())
    with pytest.raises(errors.TimedOut, match=r"longer than 0.05 s.*session.wait\('item'\)") as raised:
        await follow(client, timeout=0.05)
    assert raised.value.details == {"session_id": "s", "item_id": ITEM}
    assert not client.subscribed


async def test_a_message_that_is_steered_into_a_running_turn_ends_with_it() -> None:
    said = ev.UserMessage(item_id=ITEM, text="and this")
    client = FakeTurnClient(start("other", "another item"), said, says("done"), end(turn="other"))
    _, result = await follow(client)
    assert (result.turn_id, result.text) == ("other", "done")


def test_an_update_is_matched_by_class_and_kind() -> None:
    call = ev.ToolCall(
        tool_call_id="1", title="edit a.txt", tool_kind=ToolKind.EDIT, status=ToolStatus.PENDING
    )
    entry = Entry(id="e", seq=1, role=role_of(call), created_at=0, content=call)
    match TurnUpdate(entry=entry).event:
        case ev.ToolCall(kind=ToolKind.READ):
            raise AssertionError("it is no read")
        case ev.ToolCall(kind=ToolKind.EDIT, title=title):
            assert title == "edit a.txt"
        case _:
            raise AssertionError("it is a tool call")
    assert TurnUpdate(delta=delta("x")).event is None
