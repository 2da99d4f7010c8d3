"""What is written for a batch of entries: what is new, and nothing if it does not continue the log."""

import pytest
from msgspec.structs import replace

from farsteer.core import events as ev
from farsteer.core.approvals import Approval, ApprovalKind
from farsteer.core.events import Entry
from farsteer.core.queue import ItemState, QueueRef
from farsteer.core.wire import decode, encode
from farsteer.hub.rules import log as log_rules
from farsteer.hub.rules.log import AppendResult, AppendStatus, StoredLog, plan_append
from farsteer.hub.rules.session import MAX_STATE_BYTES, SessionPhase
from farsteer.hub.store.conformance import LogBuilder
from farsteer.link.messages import EncodedEntry

ID = "s"


def stored(last_seq: int = 0, phase: SessionPhase = SessionPhase.LIVE, state: bytes = b"{}") -> StoredLog:
    return StoredLog(phase, last_seq, state)


def seqs(entries: list[EncodedEntry], last_seq: int) -> list[int] | None:
    """The new entries of a batch, or None if it has a gap."""
    plan = plan_append(ID, stored(last_seq), entries, None)
    if plan.result.status is AppendStatus.GAP:
        assert plan.result == AppendResult(AppendStatus.GAP, last_seq)
        assert not plan.entries
        return None
    new = [entry.seq for entry in plan.entries]
    assert plan.result == AppendResult(AppendStatus.STORED, last_seq + len(new), len(new))
    return new


def test_only_what_continues_the_log_is_new() -> None:
    entries = LogBuilder(ID).add_messages(6)
    assert seqs(entries[:3], 0) == [1, 2, 3]
    assert seqs(entries[:3], 2) == [3]
    assert seqs(entries[:3], 3) == []
    assert seqs(entries[:3], 5) == []
    assert seqs(entries[3:], 3) == [4, 5, 6]
    assert seqs([], 3) == []


def test_a_gap_before_or_inside_a_batch_refuses_it() -> None:
    entries = LogBuilder(ID).add_messages(6)
    assert seqs(entries[2:], 1) is None
    assert seqs([entries[0], entries[2]], 0) is None
    assert seqs([entries[0], entries[0]], 0) is None
    assert seqs([replace(entries[0], seq=0)], 0) is None
    assert seqs([replace(entries[0], seq=-1), replace(entries[0], seq=0)], 3) is None


@pytest.mark.parametrize(
    ("log", "status"),
    [
        (None, AppendStatus.UNKNOWN),
        (stored(phase=SessionPhase.DELETED), AppendStatus.DELETED),
        (stored(phase=SessionPhase.PURGING), AppendStatus.DELETED),
        (stored(phase=SessionPhase.CREATING), AppendStatus.STORED),
        (stored(phase=SessionPhase.LIVE), AppendStatus.STORED),
    ],
)
def test_a_session_accepts_entries_while_it_exists(log: StoredLog | None, status: AppendStatus) -> None:
    plan = plan_append(ID, log, LogBuilder(ID).add_messages(1), None)
    assert plan.result.status is status
    assert bool(plan.entries) is (status is AppendStatus.STORED)


def test_the_entries_that_concern_the_hub_are_decoded_and_no_other(monkeypatch: pytest.MonkeyPatch) -> None:
    decoded: list[bytes] = []

    def decode_entry(body: bytes) -> Entry:
        decoded.append(body)
        return decode(body, Entry)

    monkeypatch.setattr(log_rules, "decode_entry", decode_entry)
    log = LogBuilder(ID)
    log.add_turn("one")
    wanted = [
        log.add(ev.QueueUpdate(item_id="i", state=ItemState.QUEUED)),
        log.add(ev.UsageUpdate(input_tokens=1)),
        log.add_rewind(1),
    ]
    plan = plan_append(ID, stored(), log.entries, None)
    assert [entry.seq for entry in plan.recorded] == [entry.seq for entry in wanted]
    assert decoded == [bytes(entry.body) for entry in wanted]
    assert not plan_append(ID, stored(log.state.seq), log.entries, None).recorded, "what is repeated is done"


def test_a_state_counts_if_it_belongs_to_the_last_entry() -> None:
    log = LogBuilder(ID)
    log.add_messages(2)
    plan = plan_append(ID, stored(), log.entries, log.state)
    assert (plan.state, plan.encoded_state) == (log.state, encode(log.state))
    for wrong in (replace(log.state, seq=1), replace(log.state, seq=3), replace(log.state, id="other")):
        assert plan_append(ID, stored(), log.entries, wrong).state is None
    assert plan_append(ID, stored(), log.entries, None).state is None
    alone = plan_append(ID, stored(2), [], log.state)
    assert (alone.state, alone.entries) == (log.state, [])


def test_commands_come_with_a_state_unless_it_keeps_them() -> None:
    log = LogBuilder(ID)
    commands = (ev.SlashCommand("test", "Run the tests"),)
    log.add(ev.CommandsUpdate(commands=commands))
    bare = replace(log.state, commands=())
    plan = plan_append(ID, stored(), log.entries, log.state)
    assert (plan.state, plan.encoded_state, plan.commands) == (bare, encode(bare), commands)
    assert plan_append(ID, stored(), log.entries, bare).commands == ()
    assert plan_append(ID, stored(), log.entries, bare, keeps_commands=True).commands is None
    assert plan_append(ID, stored(), log.entries, replace(log.state, seq=9)).commands is None, (
        "of another entry"
    )


def test_an_unchanged_state_is_not_written() -> None:
    log = LogBuilder(ID)
    log.add_messages(2)
    plan = plan_append(ID, stored(2, state=encode(log.state)), log.entries, log.state)
    assert (plan.state, plan.encoded_state, plan.entries) == (None, None, [])


def test_a_large_state_is_cut_down_before_it_is_stored() -> None:
    approval = Approval(id="a", kind=ApprovalKind.PLAN, title="t" * 10**4, created_at=1, plan="p" * 10**4)
    large = replace(
        LogBuilder(ID).state,
        title="t" * 10**6,
        error="e" * 10**6,
        approvals=(approval,) * 1000,
        commands=(ev.SlashCommand(name="n" * 1000, description="d" * 1000),) * 10_000,
        queue=tuple(QueueRef(str(number)) for number in range(10**5)),
        meta={"m": "m" * 10**6},
    )
    plan = plan_append(ID, stored(), [], large)
    assert plan.state is not None
    assert plan.encoded_state is not None
    assert len(plan.encoded_state) < 4 * MAX_STATE_BYTES
    assert plan.state.approvals[0].id == "a"
    absurd = replace(large, id=ID, native_id="n" * 10**7)
    assert plan_append(ID, stored(), [], absurd).state is None


def test_what_nobody_said_or_did_is_no_activity() -> None:
    def is_activity(*events: ev.SessionEvent) -> bool:
        log = LogBuilder(ID)
        for event in events:
            log.add(event)
        return plan_append(ID, stored(), log.entries, None).is_activity

    quiet = [
        ev.TitleUpdate(title="t"), ev.UsageUpdate(), ev.Notice(text="n"), ev.LaunchStart(generation=1, resumed=True),
        ev.StatusUpdate(status=ev.SessionStatus.IDLE),
    ]  # fmt: skip
    assert not is_activity()
    assert not is_activity(*quiet)
    assert is_activity(*quiet, ev.AgentMessage(message_id="m", text="hello"))
