"""A session in a terminal: who has the conversation, what waits for whom, and what is left after a crash."""

from __future__ import annotations

import asyncio
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import msgspec
import pytest

from farsteer.agents.base import (
    EventEmitted,
    Followed,
    Launch,
    LaunchPlan,
    Registered,
    Sink,
    Terminal,
    TerminalCommand,
    TurnBegun,
    TurnEnded,
)
from farsteer.core import commands
from farsteer.core import events as ev
from farsteer.core.capabilities import Capabilities
from farsteer.core.errors import AgentError, BadRequest, ErrorCode
from farsteer.core.events import SessionStatus, TurnEndReason
from farsteer.core.launch import LaunchMode
from farsteer.core.queue import ItemState
from farsteer.core.session import SessionState
from farsteer.runner.journal import JournalBatch
from farsteer.runner.session.actor import SessionActor
from farsteer.runner.session.terminal import SessionTerminal
from farsteer.runner.terminal_messages import (
    Attach,
    EndProgram,
    HandedOver,
    ProgramEnded,
    ProgramStarted,
    Refused,
    RunProgram,
    ToTerminal,
)
from farsteer.runner.terminals import TerminalConnection
from tests.runner.harness import SESSION, SessionHarness, approval, item
from tests.runner.scripted import SECONDS, ScriptedAdapter, ScriptedLaunch

_decoder = msgspec.json.Decoder[ToTerminal](ToTerminal)


class Screen:
    """The other side of a terminal's connection: records what it is told and does it."""

    def __init__(self, *, wants: bool = True, arguments: tuple[str, ...] = ()) -> None:
        self.told: list[ToTerminal] = []
        self.runs = True
        """Whether it starts the programs."""
        self._closed = False
        self._news = asyncio.Event()
        attach = Attach(
            secret="", session_id=SESSION, arguments=arguments, environment={"TERM": "x"}, wants=wants
        )
        self.connection = TerminalConnection(attach, self)  # pyright: ignore[reportArgumentType]

    def write(self, data: bytes) -> None:
        message = _decoder.decode(data)
        self.told.append(message)
        self._news.set()
        if isinstance(message, RunProgram) and self.runs:
            asyncio.get_running_loop().call_soon(self.connection.handle, ProgramStarted(1 << 30))
        elif isinstance(message, EndProgram):
            asyncio.get_running_loop().call_soon(self.connection.handle, ProgramEnded(143))

    def is_closing(self) -> bool:
        return self._closed

    def close(self) -> None:
        self._closed = True
        self._news.set()

    def quit(self) -> None:
        """The person ends the program."""
        self.connection.handle(ProgramEnded(0))

    async def until(self, kind: type[Any], count: int = 1) -> Any:
        async with asyncio.timeout(SECONDS):
            while len(found := [one for one in self.told if isinstance(one, kind)]) < count:
                self._news.clear()
                await self._news.wait()
        return found[count - 1]


class InTerminal(ScriptedLaunch):
    """The agent's own interface. `takes_messages` as Claude Code's by default."""

    takes_messages = False

    def __init__(self, plan: LaunchPlan, sink: Sink, terminal: Terminal) -> None:
        super().__init__(plan, sink)
        self.terminal = terminal
        self._ended: asyncio.Task[None] | None = None

    async def open(self) -> None:
        argv = ("agent", *self.terminal.arguments)
        await self.terminal.run(TerminalCommand(argv, {**self.plan.environment}, self.plan.directory))
        await self.emit(EventEmitted(ev.TerminalUpdate(open=True)))
        self._ended = asyncio.create_task(self._wait())

    async def _wait(self) -> None:
        code = await self.terminal.wait()
        await self.emit(EventEmitted(ev.TerminalUpdate(open=False)))
        await self.exit(code or 0, "the terminal was closed")

    async def stop(self, grace: float = 3.0) -> None:
        await self.terminal.end(grace)
        if self._ended is not None:
            await self._ended

    async def interrupt(self) -> None:
        raise BadRequest("only in the terminal")

    async def begin(self, turn_id: str, text: str, record: str) -> None:
        message = ev.UserMessage(item_id=record, text=text, sent_from="terminal")
        await self.emit(TurnBegun(turn_id=turn_id, message=message), Followed(record=record))

    async def end(self, turn_id: str, record: str) -> None:
        await self.emit(TurnEnded(turn_id=turn_id, reason=TurnEndReason.END_TURN), Followed(record=record))


class TerminalAdapter(ScriptedAdapter):
    capabilities = Capabilities(
        caller_chosen_id=True, resume=True, approvals=True, rewind=True, terminal=True
    )

    def __init__(self) -> None:
        super().__init__()
        self.opened: asyncio.Queue[InTerminal] = asyncio.Queue()
        self.terminal_errors: list[Exception] = []
        self.missed: list[ev.SessionEvent] = []
        self.read_after: list[str] = []

    async def start_in_terminal(self, plan: LaunchPlan, sink: Sink, terminal: Terminal) -> Launch:
        self.plans.append(plan)
        await self.gate.wait()
        if self.terminal_errors:
            raise self.terminal_errors.pop(0)
        launch = InTerminal(plan, sink, terminal)
        await launch.emit(Followed(record="begin"))
        await launch.open()
        self.opened.put_nowait(launch)
        return launch

    async def in_terminal(self) -> InTerminal:
        async with asyncio.timeout(SECONDS):
            return await self.opened.get()

    async def read_records_after(self, native_id: str, record: str, directory: str) -> list[ev.SessionEvent]:
        self.read_after.append(record)
        return self.missed


@pytest.fixture
def adapter(harness: SessionHarness) -> TerminalAdapter:
    adapter = harness.adapter = TerminalAdapter()
    return adapter


async def open_terminal(harness: SessionHarness) -> tuple[SessionActor, Screen, InTerminal]:
    """Create a session and open it in a terminal."""
    assert isinstance(harness.adapter, TerminalAdapter)
    actor = await harness.create()
    screen = Screen()
    actor.attach_terminal(screen.connection)
    launch = await harness.adapter.in_terminal()
    await harness.out.until(ev.StatusUpdate, status=SessionStatus.IDLE)
    return actor, screen, launch


async def test_a_turn_of_the_terminal_is_logged_with_its_message(
    harness: SessionHarness, adapter: TerminalAdapter
) -> None:
    actor, screen, launch = await open_terminal(harness)
    run = await screen.until(RunProgram)
    assert run.command.environment["TERM"] == "x"
    assert actor.state.in_terminal
    await launch.begin("t", "hello", "r1")
    await harness.out.until(ev.UserMessage, text="hello", sent_from="terminal")
    assert (actor.state.status, actor.state.turn_id) == (SessionStatus.WORKING, "t")
    await launch.end("t", "r2")
    await harness.out.until(ev.TurnEnd, turn_id="t", reason=TurnEndReason.END_TURN)
    assert actor.state.transcript_at == "r2"


async def test_a_message_takes_over_and_the_person_takes_back(
    harness: SessionHarness, adapter: TerminalAdapter
) -> None:
    actor, screen, launch = await open_terminal(harness)
    await launch.emit(Registered(native_id=SESSION))
    await actor.execute(commands.Send(item=item("1")))
    assert (await screen.until(HandedOver)).reason == "a message was sent from elsewhere"
    driven = await harness.adapter.launch()
    assert driven.plan.decision.start is LaunchMode.RESUME
    assert (actor.state.in_terminal, actor.state.transcript_at) == (False, None)
    prompt = await driven.prompt()
    actor.take_back(screen.connection, interrupt=False)
    await driven.finish(prompt)
    again = await adapter.in_terminal()
    assert driven.gone
    assert again.plan.decision.native_id == SESSION
    await harness.out.until(ev.TerminalUpdate, 2, open=True)
    assert len(harness.out.of(ev.UserMessage)) == 1


async def test_a_message_during_a_turn_of_the_terminal_waits_for_its_end(
    harness: SessionHarness, adapter: TerminalAdapter
) -> None:
    actor, screen, launch = await open_terminal(harness)
    await launch.begin("t", "hello", "r1")
    await harness.out.until(ev.UserMessage)
    await actor.execute(commands.Send(item=item("1")))
    assert not [one for one in screen.told if isinstance(one, HandedOver)]
    await launch.end("t", "r2")
    await (await harness.adapter.launch()).prompt()
    assert [end.reason for end in harness.out.of(ev.TurnEnd)] == [TurnEndReason.END_TURN]


async def test_what_waits_in_the_session_comes_before_the_terminal(
    harness: SessionHarness, adapter: TerminalAdapter
) -> None:
    actor = await harness.create()
    adapter.gate.clear()
    await actor.execute(commands.Send(item=item("1")))
    await actor.execute(commands.Send(item=item("2")))
    screen = Screen()
    actor.attach_terminal(screen.connection)
    adapter.gate.set()
    driven = await adapter.launch()
    for _ in range(2):
        await driven.finish(await driven.prompt())
    await adapter.in_terminal()
    assert len(harness.out.of(ev.TurnEnd)) == 2


async def test_a_second_enter_interrupts_the_turn(harness: SessionHarness, adapter: TerminalAdapter) -> None:
    actor, screen, _ = await open_terminal(harness)
    await actor.execute(commands.Send(item=item("1")))
    driven = await adapter.launch()
    prompt = await driven.prompt()
    actor.take_back(screen.connection, interrupt=True)
    async with asyncio.timeout(SECONDS):
        await driven.interrupts.get()
    await driven.finish(prompt, TurnEndReason.CANCELLED)
    await adapter.in_terminal()


async def test_an_abort_from_elsewhere_ends_the_turn_and_the_interface(
    harness: SessionHarness, adapter: TerminalAdapter
) -> None:
    actor, screen, launch = await open_terminal(harness)
    await launch.begin("t", "hello", "r1")
    await harness.out.until(ev.UserMessage)
    await actor.execute(commands.Abort())
    await screen.until(EndProgram)
    await harness.out.until(ev.TurnEnd, turn_id="t", reason=TurnEndReason.CANCELLED)
    await harness.out.until(ev.LaunchEnd)


async def test_the_person_quits_and_the_session_stops_but_goes_on_with_a_message(
    harness: SessionHarness, adapter: TerminalAdapter
) -> None:
    actor, screen, _ = await open_terminal(harness)
    screen.quit()
    actor.lose_terminal(screen.connection)
    await harness.out.until(ev.LaunchEnd)
    assert (actor.state.status, actor.state.in_terminal) == (SessionStatus.STOPPED, False)
    await actor.execute(commands.Send(item=item("1")))
    await (await adapter.launch()).prompt()


async def test_a_lost_terminal_ends_the_turn_and_the_launch(
    harness: SessionHarness, adapter: TerminalAdapter
) -> None:
    actor, screen, launch = await open_terminal(harness)
    await launch.begin("t", "hello", "r1")
    await screen.connection.lose()
    actor.lose_terminal(screen.connection)
    await harness.out.until(ev.TurnEnd, turn_id="t")
    await harness.out.until(ev.LaunchEnd)
    other = Screen()
    actor.attach_terminal(other.connection)
    await other.until(RunProgram)


async def test_a_terminal_that_is_gone_before_its_turn_changes_nothing(
    harness: SessionHarness, adapter: TerminalAdapter
) -> None:
    actor = await harness.create()
    screen = Screen()
    await screen.connection.lose()
    actor.attach_terminal(screen.connection)
    actor.lose_terminal(screen.connection)
    await actor.execute(commands.Send(item=item("1")))
    await (await adapter.launch()).prompt()
    assert adapter.opened.empty()


async def test_a_second_terminal_is_refused_and_the_first_keeps_the_conversation(
    harness: SessionHarness, adapter: TerminalAdapter
) -> None:
    actor, screen, _ = await open_terminal(harness)
    other = Screen()
    actor.attach_terminal(other.connection)
    assert (await other.until(Refused)).error.code is ErrorCode.CONFLICT
    actor.lose_terminal(other.connection)
    await actor.execute(commands.Send(item=item("1")))
    await screen.until(HandedOver)


async def test_an_agent_without_the_capability_is_refused(harness: SessionHarness) -> None:
    actor = await harness.create()
    screen = Screen()
    actor.attach_terminal(screen.connection)
    assert (await screen.until(Refused)).error.code is ErrorCode.NOT_CAPABLE


def test_a_machine_that_runs_agents_as_another_user_is_refused() -> None:
    context: Any = SimpleNamespace(user=object(), adapter=TerminalAdapter)
    terminal = SessionTerminal(context)

    async def attach() -> Screen:
        screen = Screen()
        terminal.attach(screen.connection)
        return screen

    screen = asyncio.run(attach())
    assert isinstance(screen.told[0], Refused)
    assert "run_as" in screen.told[0].error.message
    assert terminal.current is None


async def test_a_failed_start_is_told_and_what_waits_is_delivered_without_the_terminal(
    harness: SessionHarness, adapter: TerminalAdapter
) -> None:
    actor = await harness.create()
    adapter.gate.clear()
    adapter.terminal_errors.append(BadRequest("--resume cannot be used"))
    screen = Screen()
    actor.attach_terminal(screen.connection)
    await harness.out.until(ev.LaunchStart)
    await actor.execute(commands.Send(item=item("1")))
    adapter.gate.set()
    assert (await screen.until(Refused)).error.message == "--resume cannot be used"
    await (await adapter.launch()).prompt()
    assert actor.state.transcript_at is None
    states = [one.state for one in harness.out.of(ev.QueueUpdate)]
    assert ItemState.FAILED not in states
    assert not [one for one in harness.out.of(ev.StatusUpdate) if one.status is SessionStatus.FAILED]


async def test_a_start_that_is_corrected_is_repeated_in_the_terminal(
    harness: SessionHarness, adapter: TerminalAdapter
) -> None:
    adapter.terminal_errors.append(AgentError("in use", code=ErrorCode.CONVERSATION_IN_USE))
    _, screen, launch = await open_terminal(harness)
    assert launch.plan.decision.start is LaunchMode.RESUME
    assert len([one for one in screen.told if isinstance(one, RunProgram)]) == 1


async def test_a_program_that_starts_when_nobody_wants_it_any_more_is_ended(
    harness: SessionHarness, adapter: TerminalAdapter
) -> None:
    actor = await harness.create()
    screen = Screen()
    screen.runs = False
    actor.attach_terminal(screen.connection)
    await screen.until(RunProgram)
    await actor.execute(commands.Stop())
    await screen.until(HandedOver)
    await screen.until(EndProgram)
    assert actor.state.status is SessionStatus.STOPPED
    actor.take_back(screen.connection, interrupt=False)
    await screen.until(RunProgram, 2)


async def test_a_rewind_ends_the_interface(harness: SessionHarness, adapter: TerminalAdapter) -> None:
    actor, screen, launch = await open_terminal(harness)
    await launch.begin("t", "hello", "r1")
    await harness.out.until(ev.UserMessage)
    done = await actor.execute(commands.Rewind(first_seq=2, cut_at="anchor"))
    assert isinstance(done, ev.Rewound)
    assert isinstance(await screen.until(HandedOver), HandedOver)
    assert [end.reason for end in harness.out.of(ev.TurnEnd)] == [TurnEndReason.CANCELLED]
    assert (actor.state.in_terminal, actor.state.transcript_at) == (False, None)


async def test_an_approval_of_the_terminal_is_answered_from_elsewhere(
    harness: SessionHarness, adapter: TerminalAdapter
) -> None:
    from farsteer.agents.base import ApprovalAsked
    from farsteer.core.approvals import Answer, Outcome

    actor, _, launch = await open_terminal(harness)
    await launch.begin("t", "hello", "r1")
    await launch.emit(ApprovalAsked(approval()))
    await harness.out.until(ev.ApprovalRequested)
    await actor.execute(commands.AnswerApproval(approval_id="a", answer=Answer(outcome=Outcome.APPROVED)))
    async with asyncio.timeout(SECONDS):
        await launch.answers.get()
    assert actor.state.in_terminal


async def test_the_prompt_of_the_arguments_is_said_once(
    harness: SessionHarness, adapter: TerminalAdapter
) -> None:
    actor = await harness.create()
    screen = Screen(arguments=("--model", "opus", "do it"))
    actor.attach_terminal(screen.connection)
    first = await screen.until(RunProgram)
    assert first.command.argv == ("agent", "--model", "opus", "do it")
    await adapter.in_terminal()
    await actor.execute(commands.Stop())
    actor.take_back(screen.connection, interrupt=False)
    second = await screen.until(RunProgram, 2)
    assert second.command.argv == ("agent", "--model", "opus")


async def test_a_terminal_that_comes_back_to_a_driven_session_waits_to_be_asked(
    harness: SessionHarness, adapter: TerminalAdapter
) -> None:
    actor = await harness.create()
    screen = Screen(wants=False)
    actor.attach_terminal(screen.connection)
    await actor.execute(commands.Send(item=item("1")))
    driven = await adapter.launch()
    await driven.finish(await driven.prompt())
    await harness.out.until(ev.TurnEnd)
    assert adapter.opened.empty()
    actor.take_back(screen.connection, interrupt=False)
    await screen.until(RunProgram)


async def test_a_session_that_does_not_run_yet_takes_the_terminal_when_it_does(
    harness: SessionHarness, adapter: TerminalAdapter
) -> None:
    actor = await harness.create()
    await actor.close("the runner ended")
    run, SessionActor.run_in_background = SessionActor.run_in_background, lambda self: None
    try:
        waiting = await harness.reload()
    finally:
        SessionActor.run_in_background = run
    screen = Screen()
    waiting.attach_terminal(screen.connection)
    waiting.run_in_background()
    await screen.until(RunProgram)


async def test_the_end_of_the_actor_lets_the_terminal_attach_again(
    harness: SessionHarness, adapter: TerminalAdapter
) -> None:
    actor, screen, _ = await open_terminal(harness)
    await actor.close("another runner acted as this machine")
    assert isinstance(await screen.until(HandedOver), HandedOver)
    assert screen.is_closing()


# -- a runner that was killed


async def test_what_was_read_of_the_transcript_is_committed_with_its_events(
    harness: SessionHarness, adapter: TerminalAdapter, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whichever commit is the last one: the journal never knows a record without its events, nor the reverse."""
    seen: list[tuple[str | None, list[str]]] = []
    texts: list[str] = []
    append = harness.journal.append

    async def watch(state: SessionState, batch: JournalBatch, *more: Any) -> None:
        for entry in batch.entries:
            found = ev.decode_entry(bytes(entry.body)).content
            if isinstance(found, ev.UserMessage):
                texts.append(found.text)
        seen.append((state.transcript_at, [*texts]))
        await append(state, batch, *more)

    monkeypatch.setattr(harness.journal, "append", watch)
    _, _, launch = await open_terminal(harness)
    for number in range(5):
        await launch.begin(f"t{number}", f"m{number}", f"r{number}")
    await harness.out.until(ev.UserMessage, 5)
    for record, known in seen:
        if record is not None and record.startswith("r"):
            assert known == [f"m{number}" for number in range(int(record[1:]) + 1)]
        else:
            assert known == []


async def test_what_was_said_while_no_runner_ran_is_logged_once(
    harness: SessionHarness, adapter: TerminalAdapter, tmp_path: Path
) -> None:
    _, _, launch = await open_terminal(harness)
    await launch.begin("t", "before", "r1")
    await harness.out.until(ev.UserMessage)
    harness.actor = None  # It is killed: nothing ends.
    adapter.missed = [ev.UserMessage(item_id="x", text="meanwhile")]
    actor = await harness.reload()
    await harness.out.until(ev.UserMessage, text="meanwhile")
    await harness.out.until(ev.TurnEnd, turn_id="t", reason=TurnEndReason.LOST)
    assert adapter.read_after == ["r1"]
    assert (actor.state.transcript_at, actor.state.in_terminal) == (None, False)
    await actor.close("again")
    await harness.reload()
    assert adapter.read_after == ["r1"]


async def test_a_runner_that_is_killed_at_the_start_of_the_interface_reads_what_was_said(
    harness: SessionHarness, adapter: TerminalAdapter
) -> None:
    actor = await harness.create()
    screen = Screen()
    screen.runs = False
    actor.attach_terminal(screen.connection)
    await screen.until(RunProgram)
    await harness.out.until(ev.LaunchStart)
    harness.actor = None
    adapter.missed = [ev.UserMessage(item_id="x", text="meanwhile")]
    await harness.reload()
    await harness.out.until(ev.UserMessage, text="meanwhile")
    assert adapter.read_after == ["begin"]
    screen.connection.handle(ProgramStarted(1 << 30))


async def test_a_transcript_that_cannot_be_read_is_noted(
    harness: SessionHarness, adapter: TerminalAdapter, monkeypatch: pytest.MonkeyPatch
) -> None:
    await open_terminal(harness)
    harness.actor = None

    async def fail(*_: object) -> list[ev.SessionEvent]:
        raise OSError("no disk")

    monkeypatch.setattr(adapter, "read_records_after", fail)
    actor = await harness.reload()
    notice = await harness.out.until(ev.Notice)
    assert "no disk" in notice.text
    await actor.execute(commands.Send(item=item("1")))
    await (await adapter.launch()).prompt()
