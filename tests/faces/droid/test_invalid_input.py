"""Invalid input is answered with an error, and the session goes on."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from farsteer.core.ids import new_id
from farsteer.core.lines import LINE_LIMIT
from tests.support.droid_client import DroidClient, Line, note_of, of, request, text_of

pytestmark = pytest.mark.slow

NOT_JSON = {"code": -32700, "message": "Invalid JSON"}


@pytest.mark.parametrize(
    "line",
    [b"hello", b"{", b'{"jsonrpc":"2.0","factoryApi', b"\xff\xfe\x00", b'{"a":1}{"b":2}', b"[" * 100_000],
    ids=["words", "brace", "incomplete", "bytes", "two", "deep"],
)  # fmt: skip
async def test_a_line_that_is_not_json(client: DroidClient, project: Path, line: bytes) -> None:
    await client.initialize(project)
    await client.write(line)
    answer = await client.next()
    assert (answer["id"], answer["error"]) == (None, NOT_JSON)
    assert text_of(await client.turn("say still here")) == "still here"


@pytest.mark.parametrize(
    "params", [b"[" * 100_000, b'{"text":"\xff"}', b'{"text":"x","files":' + b'[{"a":' * 50_000]
)
async def test_malformed_parameters(client: DroidClient, project: Path, params: bytes) -> None:
    await client.initialize(project)
    head = request("x", "add_user_message")
    del head["params"]
    await client.write(json.dumps(head).encode()[:-1] + b',"params":' + params + b"}")
    assert (await client.next())["error"]["code"] in (-32600, -32700)
    assert text_of(await client.turn("say still here")) == "still here"


async def test_a_message_with_the_same_id_is_accepted_once(client: DroidClient, project: Path) -> None:
    await client.initialize(project)
    await client.turn("say once", messageId="mine")
    assert await client.ask("add_user_message", {"text": "say once", "messageId": "mine"}) == {}
    assert text_of(await client.turn("what did I say?")) == "You said “say once”."


async def test_blank_lines_and_carriage_returns(client: DroidClient, project: Path) -> None:
    await client.write(b"", b"   ", b"\r")
    await client.initialize(project)
    assert len(client.lines) == 2


async def test_an_incomplete_last_line(client: DroidClient) -> None:
    client.write_raw(b'{"jsonrpc":"2.0","factoryApiVersion":"1.0.0","type":"req')
    client.close()
    (answer,) = await client.rest()
    assert answer["error"] == NOT_JSON


async def test_a_line_over_the_limit_is_skipped(client: DroidClient, project: Path) -> None:
    await client.initialize(project)
    await client.write(b"x" * (LINE_LIMIT + 1))
    answer = await client.next()
    assert (answer["id"], answer["error"]["code"]) == (None, -32700)
    assert str(LINE_LIMIT + 1) in answer["error"]["message"]
    assert text_of(await client.turn("say still here")) == "still here"


async def test_a_line_of_32_megabytes(client: DroidClient, project: Path) -> None:
    """The line is read; its text is too long for a message."""
    await client.initialize(project)
    answer = await client.call("add_user_message", {"text": "x" * 32_000_000})
    assert answer["error"] == {"code": -32600, "message": "Invalid request format"}
    assert text_of(await client.turn("say still here")) == "still here"


async def test_a_long_message_arrives(client: DroidClient, project: Path) -> None:
    await client.initialize(project)
    notes = await client.turn("say " + "word " * 20_000)
    assert len(text_of(notes).split()) == 20_000


@pytest.mark.parametrize(
    "answer",
    [{"selectedOption": "proceed_everything"}, {"selectedOption": 7}, {}, None, [], "proceed_once"],
    ids=str,
)
async def test_a_malformed_answer_denies(client: DroidClient, project: Path, answer: object) -> None:
    await client.initialize(project)
    await client.ask("add_user_message", {"text": "run touch made.txt"})
    await client.reply(await client.until_request("request_permission"), answer)
    notes = await client.until_idle()
    assert of(notes, "permission_resolved")[0]["selectedOption"] == "cancel"
    assert not (project / "made.txt").exists()


async def test_an_error_response_denies(client: DroidClient, project: Path) -> None:
    await client.initialize(project)
    await client.ask("add_user_message", {"text": "run touch made.txt"})
    asked = await client.until_request("request_permission")
    await client.write({**_answer(asked["id"]), "error": {"code": -32603, "message": "no UI"}})
    await client.until_idle()
    assert not (project / "made.txt").exists()


async def test_responses_to_no_open_request_are_ignored(client: DroidClient, project: Path) -> None:
    await client.initialize(project)
    await client.write({**_answer(new_id()), "result": {"selectedOption": "proceed_once"}}, {**_answer(None)})
    await client.ask("add_user_message", {"text": "run touch made.txt"})
    asked = await client.until_request("request_permission")
    await client.select(asked, "cancel")
    await client.select(asked, "proceed_once")
    await client.until_idle()
    await client.select(asked, "proceed_once")
    assert text_of(await client.turn("say done")) == "done"
    assert not (project / "made.txt").exists()


async def test_an_answer_after_an_interrupt_is_ignored(client: DroidClient, project: Path) -> None:
    await client.initialize(project)
    await client.ask("add_user_message", {"text": "run touch made.txt"})
    asked = await client.until_request("request_permission")
    await client.send("interrupt_session")
    notes = await client.until_idle()
    assert of(notes, "permission_resolved")[0]["selectedOption"] == "cancel"
    assert of(notes, "agent_turn_completed")[0]["reason"] == "cancelled"
    await client.select(asked, "proceed_once")
    assert text_of(await client.turn("say done")) == "done"
    assert not (project / "made.txt").exists()


async def test_the_same_id_twice_is_answered_twice(client: DroidClient, project: Path) -> None:
    await client.initialize(project)
    await client.write(request("same", "list_models"), request("same", "interrupt_session"))
    assert [(await client.next())["id"], (await client.next())["id"]] == ["same", "same"]


async def test_notifications_from_a_client_are_ignored(client: DroidClient, project: Path) -> None:
    await client.initialize(project)
    await client.write({**_answer(None), "type": "notification", "method": "droid.hello", "params": {}})
    assert (await client.call("list_models"))["result"]


@pytest.mark.parametrize("name", ["../../etc/passwd", "", "nobody", "0d2e1d9e-4a47-4a4b-8a8f-111111111111"])
async def test_an_unknown_session(client: DroidClient, project: Path, name: str) -> None:
    await client.initialize(project)
    answer = await client.call("load_session", {"sessionId": name})
    assert (answer["id"], answer["error"]) == ("2", {"code": -32004, "message": "Session not found"})
    assert text_of(await client.turn("say still here")) == "still here"


async def test_a_missing_directory(client: DroidClient, project: Path) -> None:
    answer = await client.call("initialize_session", {"machineId": "m", "cwd": str(project / "missing")})
    assert answer["error"] == {"code": -32603, "message": "Working directory does not exist"}


async def test_valid_and_invalid_attachments(client: DroidClient, project: Path) -> None:
    await client.initialize(project)
    image = {"type": "base64", "data": "no base64!", "mediaType": "image/png"}
    assert "error" in await client.call("add_user_message", {"text": "hi", "images": [image]})
    image["data"] = "aGVsbG8="
    files = [{"type": "text", "data": "a text", "name": "a.txt", "mediaType": "text/plain"}]
    notes = await client.turn("say seen", images=[image], files=files)
    assert "I got image-1 (image/png, 5 bytes" in text_of(notes)
    assert "I got a.txt (text/plain, 6 bytes" in text_of(notes)


async def test_the_newest_dialect_names_the_invalid_request_and_the_reason(
    newer: DroidClient, project: Path
) -> None:
    await newer.initialize(project)
    answers = [
        await newer.call("nope"),
        await newer.call("update_session_settings", {"reasoningEffort": "superb"}),
        await newer.call("add_user_message"),
    ]
    assert [(answer["id"], answer["error"]["code"]) for answer in answers] == [
        ("2", -32601),
        ("3", -32602),
        ("4", -32602),
    ]
    assert answers[0]["error"]["message"] == "Unknown method: droid.nope"
    assert "superb" in answers[1]["error"]["message"]
    assert "text" in answers[2]["error"]["message"]
    assert newer.lines[0]["factoryProtocolVersion"] == "1.206.0"


def _answer(id: str | None) -> Line:
    return {"jsonrpc": "2.0", "factoryApiVersion": "1.0.0", "type": "response", "id": id}


async def test_a_flood_arrives_whole_and_in_order(client: DroidClient, project: Path) -> None:
    await client.initialize(project)
    notes = await client.turn("flood 3000")
    messages = [note["message"] for note in of(notes, "create_message")][1:]
    numbers = [int(message["content"][0]["text"].split()[1]) for message in messages]
    assert numbers == list(range(numbers[0], numbers[0] + 3000))
    assert [message["parentId"] for message in messages[1:]] == [message["id"] for message in messages[:-1]]
    assert note_of(client.lines[-1])["newState"] == "idle"
