"""The face on a hub with other clients: all see the same session, and any of them may answer."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager
from pathlib import Path

import pytest

from farsteer.client import AsyncClient
from farsteer.client.config import HubFile, hub_file
from farsteer.core.wire import encode
from farsteer.faces.droid.protocol import DIALECTS
from farsteer.faces.droid.sessions import ServerOptions
from tests.support.droid_client import DroidClient, droid, droid_here, note_of, of, text_of
from tests.support.stack import OWNER, Account, Stack, farsteer


@pytest.fixture
async def stack(home: Path) -> AsyncIterator[Stack]:
    async with farsteer(home) as stack:
        yield stack


@pytest.fixture
async def owner(stack: Stack) -> Account:
    return await stack.sign_in()


def face(stack: Stack, version: str = "0.57") -> AbstractAsyncContextManager[DroidClient]:
    options = ServerOptions(agent="demo", dialect=DIALECTS[version])
    return droid_here(lambda: AsyncClient(stack.url, OWNER), options)


async def test_the_face_joins_the_hub_that_runs_on_this_home(stack: Stack, owner: Account) -> None:
    (stack.home / "token").write_text(OWNER)
    hub_file(stack.home).write_bytes(encode(HubFile(url=stack.url, pid=os.getpid())))
    async with droid("--agent", "demo") as client:
        session = (await client.initialize(stack.directory()))["sessionId"]
        assert text_of(await client.turn("say hello")) == "hello"
        assert (await owner.session(session))["source"] == "droid-rpc"
        assert (await owner.session(session))["status"] == "idle"
    await owner.until(session, "stopped")
    assert [entry["content"]["kind"] for entry in await owner.messages(session)].count("turn_end") == 1


async def test_another_client_answers(stack: Stack, owner: Account) -> None:
    async with face(stack) as client:
        session = (await client.initialize(stack.directory()))["sessionId"]
        await client.ask("add_user_message", {"text": "write made.txt hello"})
        asked = await client.until_request("request_permission")
        await owner.post_json(f"/api/sessions/{session}/permissions/{asked['id']}/approve", {})
        resolved = await client.until_note("permission_resolved")
        assert (resolved["requestId"], resolved["selectedOption"]) == (asked["id"], "proceed_once")
        await client.select(asked, "cancel")
        assert text_of(await client.until_idle()) == "made.txt is done."


async def test_messages_and_settings_of_other_clients_are_sent(stack: Stack, owner: Account) -> None:
    async with face(stack) as client:
        session = (await client.initialize(stack.directory()))["sessionId"]
        await owner.post_json(f"/api/sessions/{session}/permission-mode", {"mode": "yolo"})
        settings = (await client.until_note("settings_updated"))["settings"]
        assert settings["autonomyLevel"] == "high"
        await owner.say(session, "say from elsewhere")
        notes = await client.until_idle()
        assert text_of(notes) == "from elsewhere"
        assert "requestId" not in of(notes, "create_message")[0]


@pytest.mark.parametrize("version", ["0.57", "0.215"])
async def test_a_session_that_waits_is_loaded_waiting(stack: Stack, owner: Account, version: str) -> None:
    session = await stack.create(owner)
    await owner.say(session, "write made.txt hello\nask")
    await owner.until(session, "waiting")
    async with face(stack, version) as client:
        loaded = await client.ask("load_session", {"sessionId": session})
        assert (loaded["isAgentLoopInProgress"], loaded["workingState"]) == (
            True,
            "waiting_for_tool_confirmation",
        )
        (pending,) = loaded["pendingPermissions"]
        assert pending["toolUses"][0]["confirmationType"] == "create"
        assert [message["role"] for message in loaded["session"]["messages"]] == ["user", "assistant"]
        if version == "0.57":
            asked = await client.until_request("request_permission")
            assert asked["id"] == pending["requestId"]
        await client.select({"id": pending["requestId"]}, "proceed_once")
        question = await client.until_request("ask_user")
        answer = {"index": 1, "question": "Which colour?", "answer": "Blue"}
        await client.reply(question, {"cancelled": False, "answers": [answer]})
        notes = await client.until_idle()
        assert text_of(notes) == "You chose colour: blue."
    assert (await owner.session(session))["status"] == "idle", "one that was only visited keeps its process"


async def test_messages_wait_for_each_other_and_an_interrupt_discards_them(stack: Stack) -> None:
    async with face(stack) as client:
        await client.initialize(stack.directory())
        await client.ask("add_user_message", {"text": "work 1000 0.05"})
        await client.until_note("assistant_text_delta")
        second = await client.send("add_user_message", {"text": "say second", "messageId": "mine"})
        await client.until(lambda line: line.get("id") == second)
        await client.send("interrupt_session")
        notes = await client.until_idle()
        (discarded,) = of(notes, "queued_messages_discarded")
        assert discarded == {"type": "queued_messages_discarded", "text": "say second", "requestId": second}
        assert text_of(await client.turn("say third")) == "third"


async def test_two_messages_in_a_row_are_two_turns(stack: Stack) -> None:
    async with face(stack) as client:
        await client.initialize(stack.directory())
        first = await client.send("add_user_message", {"text": "say first", "messageId": "a"})
        second = await client.send("add_user_message", {"text": "say second", "messageId": "b"})
        notes = [*await client.until_idle(), *await client.until_idle()]
        assert [note["turnId"] for note in of(notes, "agent_turn_completed")] == ["a", "b"]
        asked = [note for note in of(notes, "create_message") if note["message"]["role"] == "user"]
        assert [note["requestId"] for note in asked] == [first, second]
        # Everything of a turn is told before its end.
        ends = [index for index, note in enumerate(notes) if note["type"] == "agent_turn_completed"]
        assert text_of(notes[: ends[0]]) == "first"
        assert text_of(notes[ends[0] :]) == "second"


async def test_a_session_that_is_deleted_says_so(stack: Stack, owner: Account) -> None:
    async with face(stack) as client:
        session = (await client.initialize(stack.directory()))["sessionId"]
        await client.turn("say hello")
        await owner.delete(f"/api/sessions/{session}")
        assert (await client.until_note("error"))["message"] == "the session was deleted"


async def test_an_agent_that_cannot_start_fails_the_message(stack: Stack, owner: Account) -> None:
    async with face(stack) as client:
        session = (await client.initialize(stack.directory("gone")))["sessionId"]
        await client.turn("say hello")
        await owner.post_json(f"/api/sessions/{session}/stop")
        os.rmdir(stack.directory("gone"))
        notes = await client.turn("say hello again")
        assert of(notes, "error")
        assert of(notes, "agent_turn_completed")[0]["reason"] == "error"
        stack.directory("gone")
        assert text_of(await client.turn("say back")) == "back"
        assert note_of(client.lines[-1])["newState"] == "idle"


async def test_a_write_token_cannot_loosen_a_session_over_droid(stack: Stack, owner: Account) -> None:
    made = await owner.post_json("/api/tokens", {"label": "writer", "scopes": ["read", "write"]}, 201)
    options = ServerOptions(agent="demo")
    async with droid_here(lambda: AsyncClient(stack.url, made["secret"]), options) as client:
        session = (await client.initialize(stack.directory()))["sessionId"]
        directory = {"machineId": "x", "cwd": stack.directory()}
        attempts = [
            await client.call("update_session_settings", {"autonomyLevel": "low"}),
            await client.call("update_session_settings", {"autonomyLevel": "high"}),
            await client.call("initialize_session", {**directory, "autonomyLevel": "medium"}),
            await client.call("initialize_session", {**directory, "skipPermissionsUnsafe": True}),
        ]
        for answer in attempts:
            assert "'approve'" in answer["error"]["message"], answer
        await client.ask("update_session_settings", {"autonomyLevel": "off"})
    [only] = (await owner.get_json("/api/sessions"))["sessions"]
    assert (only["id"], only["permissionMode"]) == (session, "default")


async def test_an_answer_over_droid_is_recorded_with_its_token(stack: Stack, owner: Account) -> None:
    made = await owner.post_json("/api/tokens", {"label": "droid"}, 201)
    options = ServerOptions(agent="demo")
    async with droid_here(lambda: AsyncClient(stack.url, made["secret"]), options) as client:
        session = (await client.initialize(stack.directory()))["sessionId"]
        await client.ask("add_user_message", {"text": "write made.txt hello"})
        await client.select(await client.until_request("request_permission"), "proceed_once")
        await client.until_idle()
    log = [entry["content"] for entry in await owner.messages(session, limit=200)]
    who = [entry["identity"] for entry in log if entry["kind"] in ("user_message", "approval_resolved")]
    assert who == [{"tokenId": made["token"]["id"], "label": "droid"}] * 2
