"""The SDK against a real hub with a real runner and the demo agent."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from farsteer import AsyncClient, Client
from farsteer.client import stream
from farsteer.core import errors
from farsteer.core.api import NewAttachment
from farsteer.core.approvals import Approval, Outcome
from farsteer.core.errors import ErrorCode
from farsteer.core.events import AgentMessage, FileRestore, Role, SessionStatus, TurnEndReason, UserMessage
from farsteer.core.live_events import DraftUpdatedEvent
from farsteer.core.modes import PermissionMode
from farsteer.core.queue import Delivery, ItemState
from tests.client.proxy import proxy
from tests.support.eventually import eventually
from tests.support.stack import OWNER, Stack, farsteer


@pytest.fixture
async def stack(home: Path) -> AsyncIterator[Stack]:
    async with farsteer(home) as stack:
        yield stack


@pytest.fixture
async def client(stack: Stack) -> AsyncIterator[AsyncClient]:
    async with AsyncClient(stack.url, OWNER) as client:
        yield client


async def test_a_conversation(stack: Stack, client: AsyncClient) -> None:
    session = await client.start(stack.directory(), agent="demo", title="talk")
    updates = [update async for update in session.turn("slow 5")]
    assert "".join(update.text for update in updates).split() == [f"word{n}" for n in range(1, 6)]
    assert sum(1 for update in updates if update.delta) > 1, "it streams"
    assert str(await session.ask("say exactly this")) == "exactly this"
    said = [
        entry.content.text async for entry in session.messages() if isinstance(entry.content, UserMessage)
    ]
    assert said == ["slow 5", "say exactly this"]


async def test_concurrent_questions_get_their_own_answers(stack: Stack, client: AsyncClient) -> None:
    session = await client.start(stack.directory(), agent="demo")
    answers = await asyncio.gather(*(session.ask(f"say {n}") for n in range(5)))
    assert [str(answer) for answer in answers] == [str(n) for n in range(5)]
    assert len({answer.turn_id for answer in answers}) == 5


async def test_an_approval_by_callback(stack: Stack, client: AsyncClient) -> None:
    session = await client.start(stack.directory(), agent="demo")
    asked: list[Approval] = []

    def decide(approval: Approval) -> bool:
        asked.append(approval)
        return True

    await session.ask("write note.txt hello", on_approval=decide)
    assert (Path(stack.directory()) / "note.txt").read_text().strip() == "hello"
    assert len(asked) == 1
    await session.ask("write other.txt hello", on_approval=lambda approval: False)
    assert not (Path(stack.directory()) / "other.txt").exists()


async def test_what_the_agent_asks_can_be_answered_after_ask_has_raised(
    stack: Stack, client: AsyncClient
) -> None:
    session = await client.start(stack.directory(), agent="demo")
    with pytest.raises(errors.ApprovalNeeded) as raised:
        await session.ask("run echo whales")
    needed = raised.value
    assert [waiting.approval.id for waiting in await client.approvals()] == [needed.approval.id]
    with pytest.raises(errors.ApprovalNeeded):
        await session.wait(needed.item_id)
    with pytest.raises(errors.TimedOut) as late:
        await session.wait(needed.item_id, on_approval=lambda approval: None, timeout=0.2)
    assert late.value.details["item_id"] == needed.item_id
    await session.approve(needed.approval.id)
    result = await session.wait(needed.item_id)
    assert str(result) == "The command has run."
    assert await session.wait(needed.item_id) == result, "also when it has ended"
    assert str(await session.ask("say next")) == "next"


async def test_a_sent_message_is_waited_for(stack: Stack, client: AsyncClient) -> None:
    session = await client.start(stack.directory(), agent="demo")
    sent = [await session.send(f"say {n}") for n in range(3)]
    answers = await asyncio.gather(*(session.wait(message.id) for message in reversed(sent)))
    assert [str(answer) for answer in answers] == ["2", "1", "0"]
    with pytest.raises(errors.NotFound):
        await session.wait("no-such-message")


async def test_an_approval_from_the_inbox(stack: Stack, client: AsyncClient) -> None:
    session = await client.start(stack.directory(), agent="demo")
    choice = ""
    async with session.turn("ask") as turn:
        async for update in turn:
            if update.approval is None:
                continue
            [waiting] = await client.approvals()
            assert waiting.approval == update.approval
            assert waiting.session_id == session.id
            question = update.approval.questions[0]
            with pytest.raises(errors.BadRequest):
                await session.approve(update.approval.id, answers={question.id: ["none of these"]})
            choice = question.choices[0]
            answered = await session.approve(update.approval.id, answers={question.id: [choice]})
            assert answered.outcome is Outcome.APPROVED
            with pytest.raises(errors.AlreadyAnswered) as caught:
                await session.deny(update.approval.id)
            assert caught.value.details["outcome"] == "approved"
    assert turn.result is not None
    assert choice
    assert choice in turn.result.text
    assert await client.approvals() == []


async def test_a_crash_is_an_error_and_the_session_goes_on(stack: Stack, client: AsyncClient) -> None:
    session = await client.start(stack.directory(), agent="demo")
    with pytest.raises(errors.AgentError) as caught:
        await session.ask("crash")
    assert caught.value.code is ErrorCode.AGENT_DIED
    assert str(await session.ask("say still here")) == "still here"


async def test_abort_ends_the_followed_turn(stack: Stack, client: AsyncClient) -> None:
    session = await client.start(stack.directory(), agent="demo")
    async with session.turn("slow 1000") as turn:
        async for update in turn:
            if update.text:
                await session.abort()
                break
        assert (await turn.finish()).reason is TurnEndReason.CANCELLED


async def test_a_session_from_start_to_delete(stack: Stack, client: AsyncClient) -> None:
    session = await client.start(
        stack.directory(), agent="demo", permission_mode="acceptEdits", model="demo-1-mini"
    )
    view = await session.view()
    assert (view.permission_mode, view.model) == (PermissionMode.ACCEPT_EDITS, "demo-1-mini")
    await session.rename("a better title")
    await session.set_permission_mode("yolo")
    await session.set_model("demo-1", effort="high")
    assert "demo-1" in str(await session.ask("model"))
    view = await session.view()
    assert (view.title, view.permission_mode, view.model) == ("a better title", PermissionMode.YOLO, "demo-1")
    await session.stop()
    await session.resume()
    assert [found.id async for found in client.sessions(agent="demo", text="better")] == [session.id]
    assert [found.id async for found in client.sessions(state=SessionStatus.FAILED)] == []
    cleared = await session.clear_messages(keep=2)
    assert cleared.remaining == 2
    assert len([entry async for entry in session.messages()]) == 2
    await session.delete()
    with pytest.raises(errors.NotFound):
        await session.view()


async def test_the_queue(stack: Stack, client: AsyncClient) -> None:
    session = await client.start(stack.directory(), agent="demo")
    first = await session.send("slow 1000")
    again = await session.send("say second", local_id="same")
    assert (await session.send("say second", local_id="same")).id == again.id
    assert again.id in [item.id for item in await session.queue()]
    await session.cancel(again.id)

    async def gone() -> bool:
        return again.id not in [item.id for item in await session.queue()]

    await eventually(gone)
    assert first.id != again.id
    await session.abort()


async def test_pages_forwards_and_backwards(stack: Stack, client: AsyncClient) -> None:
    session = await client.start(stack.directory(), agent="demo")
    await session.ask("flood 250")
    forwards = [entry.seq async for entry in session.messages()]
    backwards = [entry.seq async for entry in session.history()]
    assert len(forwards) > 250
    assert forwards == list(range(1, len(forwards) + 1)) == backwards[::-1]
    assert [entry.seq async for entry in session.messages(after=240)] == forwards[240:]
    assert [entry.seq async for entry in session.history(before=11)] == forwards[9::-1]


async def test_attachments_typing_and_online_users(stack: Stack, client: AsyncClient) -> None:
    session = await client.start(stack.directory(), agent="demo")
    await session.ask("hello", attachments=[NewAttachment(name="a.txt", data="aGVsbG8=")])
    users = [entry async for entry in session.messages() if entry.role is Role.USER]
    assert isinstance(users[0].content, UserMessage)
    assert [attachment.name for attachment in users[0].content.attachments] == ["a.txt"]
    async with client.events(session.id, types=["typing-changed"]) as events:
        await session.typing("hel", client_id="me")
        assert (await anext(events)).raw["typing"]["text"] == "hel"
    assert isinstance(await client.online_users(), list)


async def test_machines_agents_health_and_tokens(client: AsyncClient) -> None:
    [machine] = await client.machines()
    assert (await client.machine(machine.id)).active
    assert "demo" in [agent.name for agent in await client.agents()]
    assert (await client.health()).status == "ok"
    created = await client.create_token("ci", scopes=["read"], expires_in=3600)
    assert created.token.id in [token.id for token in await client.tokens()]
    async with AsyncClient(client.url, created.secret) as other:
        assert len(await other.machines()) == 1
        with pytest.raises(errors.Forbidden):
            await other.create_token("more")
    await client.revoke_token(created.token.id)
    async with AsyncClient(client.url, created.secret) as other:
        with pytest.raises(errors.Unauthorized):
            await other.machines()


async def test_limits_are_read_and_a_machine_is_removed(stack: Stack, client: AsyncClient) -> None:
    session = await client.start(stack.directory(), agent="demo")
    assert {limit.kind: limit.used for limit in await client.limits()}["sessions"] == 1
    [machine] = await client.machines()
    with pytest.raises(errors.Conflict):
        await client.remove_machine(machine.id, delete_sessions=True)
    await stack.stop_runner()
    with pytest.raises(errors.Conflict) as refused:
        await client.remove_machine(machine.id)
    assert refused.value.details["sessions"] == 1
    async with client.events(types=["machine-removed"]) as events:
        await client.remove_machine(machine.id, delete_sessions=True)
        removed = await anext(events)
    assert removed.type == "machine-removed"
    assert await client.machines() == []
    with pytest.raises(errors.NotFound):
        await client.session(session.id)
    with pytest.raises(errors.NotFound):
        await client.remove_machine(machine.id)


async def test_a_failed_creation_says_why_and_what_was_tried(stack: Stack, client: AsyncClient) -> None:
    with pytest.raises(errors.Unprocessable) as caught:
        await client.start("/does/not/exist", agent="demo")
    assert caught.value.code is ErrorCode.DIRECTORY_MISSING
    assert caught.value.details["logs"]
    with pytest.raises(errors.FarsteerError) as caught:
        await client.start(stack.directory(), agent="nobody")
    assert caught.value.code is ErrorCode.AGENT_UNKNOWN
    with pytest.raises(errors.NotFound):
        await client.start(stack.directory(), machine="elsewhere")


async def test_a_wrong_token_is_refused(stack: Stack) -> None:
    async with AsyncClient(stack.url, "wrong") as client:
        with pytest.raises(errors.Unauthorized):
            await client.machines()


async def test_a_stream_cut_again_and_again_misses_nothing(
    stack: Stack, client: AsyncClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(stream, "FIRST_DELAY", 0.01)
    session = await client.start(stack.directory(), agent="demo")
    async with proxy(stack.url) as link, AsyncClient(link.url, OWNER) as far:
        seqs: list[int] = []
        async with far.events(session.id, types=["message-received"]) as events:
            asking = asyncio.create_task(session.ask("flood 600"))
            async for event in events:
                assert event.entry is not None
                seqs.append(event.entry.seq)
                if len(seqs) % 97 == 0:
                    link.cut()
                if event.entry.content.__class__.__name__ == "TurnEnd":
                    break
        await asking
    assert seqs == list(range(seqs[0], seqs[0] + len(seqs)))
    assert len(seqs) > 600


async def test_a_turn_is_followed_through_cuts(
    stack: Stack, client: AsyncClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(stream, "FIRST_DELAY", 0.01)
    session = await client.start(stack.directory(), agent="demo")
    async with proxy(stack.url) as link, AsyncClient(link.url, OWNER) as far:
        text = ""
        async with far.attach(session.id).turn("slow 20") as turn:
            async for update in turn:
                text += update.text
                if update.delta and len(text) % 3 == 0:
                    link.cut()
        assert turn.result is not None
        assert text == turn.result.text
        assert len(text.split()) == 20


async def test_without_arguments_it_finds_the_hub_of_this_home(
    stack: Stack, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FARSTEER_HUB", stack.url)
    monkeypatch.setenv("CLI_API_TOKEN", OWNER)
    async with AsyncClient() as client:
        assert client.url == stack.url
        assert len(await client.machines()) == 1


async def test_the_synchronous_client(stack: Stack) -> None:
    def script() -> tuple[str, list[str]]:
        with Client(stack.url, OWNER) as client:
            session = client.start(stack.directory(), agent="demo")
            pieces = [update.text for update in session.turn("slow 3") if update.text]
            session.ask("run echo hi", on_approval=lambda approval: True)
            said = [
                entry.content.text for entry in session.messages() if isinstance(entry.content, AgentMessage)
            ]
            session.stop()
            return "".join(pieces), said

    text, said = await asyncio.to_thread(script)
    assert text.split() == ["word1", "word2", "word3"]
    assert said[-1] == "The command has run."


async def seq_of(client: AsyncClient, session_id: str, text: str) -> int:
    async for entry in client.messages(session_id):
        if isinstance(entry.content, UserMessage) and entry.content.text == text:
            return entry.seq
    raise AssertionError(f"nobody said {text!r}")


async def test_rewinding_removes_a_message_and_restores_files(stack: Stack, client: AsyncClient) -> None:
    directory = Path(stack.directory())
    session = await client.start(directory, agent="demo", yolo=True)
    await session.ask("remember the dolphin")
    await session.ask("write whales.txt hello")
    assert (directory / "whales.txt").read_text().strip() == "hello"
    done = await session.rewind(await seq_of(client, session.id, "write whales.txt hello"))
    assert (done.text, done.files.status) == ("write whales.txt hello", FileRestore.FULL)
    assert not (directory / "whales.txt").exists()
    remembered = str(await session.ask("history"))
    assert "dolphin" in remembered
    assert "whales.txt" not in remembered
    with pytest.raises(errors.NotFound):
        await session.rewind(done.first_seq)


async def test_a_fork_has_the_history_and_does_not_change_its_source(
    stack: Stack, client: AsyncClient
) -> None:
    session = await client.start(stack.directory(), agent="demo", title="source")
    await session.ask("remember the dolphin")
    await session.ask("remember the whale")
    fork = await session.fork(seq=await seq_of(client, session.id, "remember the whale"), title="branch")
    remembered = str(await fork.ask("history"))
    assert "dolphin" in remembered
    assert "whale" not in remembered
    assert "whale" in str(await session.ask("history"))
    assert (await fork.view()).title == "branch"


async def test_export_as_jsonl_and_markdown(stack: Stack, client: AsyncClient) -> None:
    session = await client.start(stack.directory(), agent="demo")
    await session.ask("say something worth keeping")
    lines = b"".join([piece async for piece in session.export()]).splitlines()
    assert json.loads(lines[0])["session"]["id"] == session.id
    assert any("worth keeping" in json.dumps(json.loads(line)) for line in lines[1:])
    page = b"".join([piece async for piece in session.export(form="markdown")]).decode()
    assert "something worth keeping" in page


async def test_usage_is_counted_by_day_session_and_turn(stack: Stack, client: AsyncClient) -> None:
    session = await client.start(stack.directory(), agent="demo")
    for _ in range(2):
        await session.ask("hello")
    whole = await client.usage()
    assert len(whole.groups) == 1
    assert whole.total.turns == 2
    assert whole.total.input_tokens > 0
    (mine,) = (await client.usage(group_by="session")).groups
    assert (mine.key, mine.turns) == (session.id, 2)
    assert len((await client.usage(group_by="turn", session_id=session.id)).groups) == 2


async def test_a_stored_conversation_is_listed_and_belongs_to_its_session(
    stack: Stack, client: AsyncClient
) -> None:
    session = await client.start(stack.directory(), agent="demo")
    await session.ask("remember the dolphin")
    (machine,) = await client.machines()
    (stored,) = await client.conversations(machine.id, "demo")
    assert (stored.session_id, stored.directory) == (session.id, stack.directory())
    with pytest.raises(errors.Conflict) as refused:
        await client.adopt(machine.id, "demo", stored.native_id)
    assert session.id in refused.value.message


async def test_a_message_can_go_first_or_into_the_running_turn(stack: Stack, client: AsyncClient) -> None:
    session = await client.start(stack.directory(), agent="demo")
    await session.send("slow 400")

    async def working() -> bool:
        return (await session.view()).turn_id is not None

    await eventually(working)
    steered = await session.send("say steered", delivery=Delivery.STEER)
    later = await session.send("say later")
    last = await session.send("say last")
    await session.send_now(last.id)

    async def done() -> bool:
        view = await session.view()
        return view.turn_id is None and not view.queue

    await eventually(done, 20)
    said = [e.content.item_id async for e in session.messages() if isinstance(e.content, UserMessage)]
    assert said[1:] == [steered.id, last.id, later.id]
    assert steered.state is ItemState.ACCEPTED


@pytest.mark.slow
def test_the_synchronous_client_forks_and_exports(home: Path) -> None:
    async def serve(ready: asyncio.Event, over: asyncio.Event, urls: list[str]) -> None:
        async with farsteer(home) as stack:
            urls += [stack.url, stack.directory()]
            ready.set()
            await over.wait()

    async def main() -> None:
        ready, over, urls = asyncio.Event(), asyncio.Event(), list[str]()
        serving = asyncio.create_task(serve(ready, over, urls))
        await ready.wait()
        await asyncio.to_thread(talk, *urls)
        over.set()
        await serving

    def talk(url: str, directory: str) -> None:
        with Client(url, OWNER) as client:
            session = client.start(directory, agent="demo")
            session.ask("remember the dolphin")
            fork = session.fork()
            assert "dolphin" in str(fork.ask("history"))
            assert b"dolphin" in b"".join(session.export())
            assert client.usage(group_by="agent").total.turns == 2

    asyncio.run(main())


async def test_a_draft_is_shared_by_clients(stack: Stack, client: AsyncClient) -> None:
    session = await client.start(stack.directory(), agent="demo")
    async with session.events(types=["draft-updated"]) as events:
        written = await session.write_draft("say it", version=0)
        event = await anext(events)
    assert isinstance(event.content, DraftUpdatedEvent)
    assert (event.content.session_id, event.content.data.text) == (session.id, "say it")
    assert await session.draft() == written
    with pytest.raises(errors.Conflict) as refused:
        await session.write_draft("late", version=0)
    assert refused.value.code is ErrorCode.DRAFT_OUTDATED
    assert str(await session.ask("say it")) == "it"
    assert (await session.draft()).text == ""


async def test_a_pairing_is_made_listed_and_cancelled(client: AsyncClient) -> None:
    made = await client.create_pairing("phone", scopes=["read"], expires_in=60)
    assert (made.pairing.label, made.pairing.scopes) == ("phone", ("read",))
    assert await client.pairings() == [made.pairing]
    await client.cancel_pairing(made.pairing.id)
    assert await client.pairings() == []
    with pytest.raises(errors.NotFound):
        await client.cancel_pairing(made.pairing.id)
