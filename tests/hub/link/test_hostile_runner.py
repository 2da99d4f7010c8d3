"""A runner that sends invalid or absurd data breaks nothing that others read."""

import json
import logging
from collections.abc import AsyncIterator
from typing import Any

import msgspec
import pytest

from farsteer.core import events as ev
from farsteer.core.api import CreateSession, RewindSession
from farsteer.core.capabilities import AgentInfo
from farsteer.core.commands import Abort, Create, ListConversations, Rewind
from farsteer.core.errors import AgentError, ErrorCode, ErrorRecord, FarsteerError
from farsteer.core.events import Delta, DeltaKind, decode_entry, make_entry
from farsteer.core.ids import new_id
from farsteer.core.session import SessionState
from farsteer.core.wire import encode
from farsteer.hub import Hub
from farsteer.hub.services.creation import CreationFailed
from farsteer.link.frames import decode_at_hub
from farsteer.link.messages import Call, Deltas, EncodedEntry, Events, LogLine, Reply, encode_entry
from tests.hub.scripted import FeedRecorder, ScriptedRunner, caller, machine

ME = caller()
EVIL = "evil\x1b]0;owned\x07\r\n12:00 INFO forged \u202egpj.exe"
CLEAN = "evil]0;owned 12:00 INFO forged gpj.exe"


def raw(seq: int, kind: str, body: bytes) -> EncodedEntry:
    return EncodedEntry(seq, kind, msgspec.Raw(body))


def body(session_id: str, seq: int, content: dict[str, Any], **fields: Any) -> bytes:
    entry = {"id": f"{session_id}:{seq}", "seq": seq, "role": "agent", "createdAt": 1, "content": content}
    return json.dumps(entry | fields).encode()


def nested(depth: int) -> Any:
    value: Any = 1
    for _ in range(depth):
        value = [value]
    return value


async def stored(hub: Hub, session_id: str) -> list[dict[str, Any]]:
    return json.loads(await hub.messages.list(ME, session_id))["messages"]


async def whole(chunks: AsyncIterator[bytes]) -> str:
    return b"".join([chunk async for chunk in chunks]).decode()


NOTICE = {"kind": "notice", "text": "hi"}


def invalid_entries(session_id: str) -> dict[str, EncodedEntry]:
    return {
        "not UTF-8": raw(1, "notice", b'{"text":"\xff"}'),
        "not an entry": raw(1, "queue_update", b'{"id":1}'),
        "not an object": raw(1, "notice", b"[[]]"),
        "two values": raw(1, "notice", body(session_id, 1, NOTICE) + b"," + body(session_id, 1, NOTICE)),
        "of another session": raw(1, "notice", body(new_id(), 1, NOTICE)),
        "of another place": raw(1, "notice", body(session_id, 2, NOTICE)),
        "of another kind": raw(1, "user_message", body(session_id, 1, NOTICE)),
        "of an unknown kind under a known name": raw(1, "notice", body(session_id, 1, {"kind": "new"})),
        "without a kind": raw(1, "notice", body(session_id, 1, {"text": "x"})),
        "nested too deeply": raw(1, "notice", body(session_id, 1, NOTICE | {"meta": {"x": nested(150)}})),
        "nested far too deeply": raw(1, "notice", b'{"x":' + b"[" * 100_000 + b"]" * 100_000 + b"}"),
        "nested in a field that is not known": raw(
            1, "notice", body(session_id, 1, NOTICE, later=nested(150))
        ),
        "a rewind to nowhere": raw(
            1,
            "rewound",
            body(session_id, 1, {"kind": "rewound", "firstSeq": -(10**30), "files": {"status": "full"}}),
        ),
    }


@pytest.mark.parametrize("attack", invalid_entries(""))
async def test_an_invalid_entry_becomes_a_notice_in_its_place(
    hub: Hub, runner: ScriptedRunner, session_id: str, attack: str, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.WARNING)
    bad = invalid_entries(session_id)[attack]
    good = encode_entry(make_entry(session_id, 2, ev.AgentMessage(message_id="2", text="still here"), 1))
    for _ in range(3):
        await runner.send(Events(session=session_id, entries=[bad, good]))
    await runner.wait_until(lambda: runner.acked.get(session_id) == 2)
    await runner.ping()
    first, second = await stored(hub, session_id)
    assert (first["content"]["kind"], first["content"]["code"]) == ("notice", "entry_invalid")
    assert second["content"]["text"] == "still here"
    for form in ("jsonl", "markdown"):
        assert "still here" in await whole((await hub.exports.export(ME, session_id, form)).chunks)
    assert len([record for record in caplog.records if "not valid" in record.message]) == 1


async def test_an_entry_that_is_too_large_becomes_a_notice(
    hub: Hub, runner: ScriptedRunner, session_id: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("farsteer.hub.rules.entry_check.MAX_ENTRY_BYTES", 1000)
    await runner.append(session_id, ev.Notice(text="x" * 1000), ev.Notice(text="small"))
    first, second = await stored(hub, session_id)
    assert first["content"]["code"] == "entry_invalid"
    assert second["content"]["text"] == "small"


async def test_an_unknown_kind_of_a_newer_runner_is_kept_as_it_is(
    hub: Hub, runner: ScriptedRunner, session_id: str
) -> None:
    content = {"kind": "hologram", "beam": [1, {"deep": True}]}
    newer = raw(1, "hologram", body(session_id, 1, content, later="field"))
    await runner.send(Events(session=session_id, entries=[newer]))
    await runner.wait_until(lambda: runner.acked.get(session_id) == 1)
    [entry] = await stored(hub, session_id)
    assert (entry["content"], entry["later"]) == (content, "field")


async def test_a_known_kind_with_other_fields_is_kept_as_other(
    hub: Hub, runner: ScriptedRunner, session_id: str
) -> None:
    content = {"kind": "agent_message", "messageId": 7, "text": ["not", "text"]}
    await runner.send(
        Events(session=session_id, entries=[raw(1, "agent_message", body(session_id, 1, content))])
    )
    await runner.wait_until(lambda: runner.acked.get(session_id) == 1)
    [entry] = await stored(hub, session_id)
    assert entry["content"] == {"kind": "other", "nativeKind": "agent_message", "data": content}


@pytest.mark.parametrize("kind", ["None", "notice", "other", "hologram"])
async def test_an_entry_without_a_kind_or_with_a_misleading_one_can_be_read(
    hub: Hub, runner: ScriptedRunner, session_id: str, kind: str
) -> None:
    for seq, content in enumerate(({"text": "x"}, {"kind": "other", "nativeKind": kind}, {"kind": None}), 1):
        await runner.send(
            Events(session=session_id, entries=[raw(seq, kind, body(session_id, seq, content))])
        )
    await runner.wait_until(lambda: runner.acked.get(session_id) == 3)
    for entry in await stored(hub, session_id):
        assert entry["content"]["kind"] in ("other", "notice")


async def test_many_braces_in_a_text_are_not_nesting(
    hub: Hub, runner: ScriptedRunner, session_id: str
) -> None:
    text = "{[" * 500 + '"\\' * 100
    await runner.append(session_id, ev.AgentMessage(message_id="1", text=text))
    [entry] = await stored(hub, session_id)
    assert entry["content"]["text"] == text


async def test_a_state_is_cleaned_and_bounded(hub: Hub, runner: ScriptedRunner, session_id: str) -> None:
    log = runner.logs[session_id]
    entry = log.add(ev.Notice(text="x"))
    commands = tuple(ev.SlashCommand(name=str(n), description="d" * 10_000) for n in range(3000))
    state = msgspec.structs.replace(
        log.state, title=EVIL + "x" * 1000, error=EVIL, commands=commands, meta={"x": "y" * 100_000},
        left_behind=("x",) * 5000,
    )  # fmt: skip
    await runner.send(Events(session=session_id, entries=[entry], state=state))
    await runner.wait_until(lambda: runner.acked.get(session_id) == 1)
    view = await hub.sessions.get(ME, session_id)
    assert view.title is not None
    assert view.title.startswith(CLEAN)
    assert len(view.title) == 200
    assert view.error == "evil]0;owned\n12:00 INFO forged gpj.exe"
    assert len(view.commands) == 1000
    assert len(encode(view)) < 400_000


async def test_deltas_that_are_absurd_are_dropped(hub: Hub, runner: ScriptedRunner, session_id: str) -> None:
    feed = FeedRecorder(hub)
    good = Delta(message_id="1", kind=DeltaKind.MESSAGE, text="hello")
    await runner.send_deltas(
        session_id,
        Delta(message_id="x" * 10_000, kind=DeltaKind.MESSAGE, text="a"),
        Delta(message_id="1", kind=DeltaKind.MESSAGE, text="a" * 5_000_000),
        Delta(message_id="1", kind=DeltaKind.MESSAGE, text="a", offset=-1),
        Delta(message_id="1", kind=DeltaKind.MESSAGE, text="a", after=10**30),
        good,
    )
    await runner.send_deltas(EVIL, good)
    await runner.ping()
    assert [event["delta"]["text"] for event in feed.of("message-delta")] == ["hello"]


async def test_a_hostile_machine_has_clean_and_bounded_names(hub: Hub) -> None:
    agent = AgentInfo(name=EVIL, title=EVIL, available=False, version=EVIL, reason=EVIL, install=EVIL)
    info = machine(
        name=EVIL * 100,
        agents=(agent, AgentInfo(name="\x1b", title="", available=True)) * 150,
        roots=("/" * 9000, *["/x"] * 3000),
    )
    info = msgspec.structs.replace(info, host=EVIL, platform=EVIL, version=EVIL)
    async with ScriptedRunner(hub, info=info) as runner:
        view = await hub.machines.get(ME, runner.info.id)
    assert {view.host, view.platform, view.version} == {CLEAN}
    assert view.name is not None
    assert view.name.startswith(CLEAN)
    assert len(view.name) == 200
    shown = view.agents[0]
    assert {shown.name, shown.title, shown.version, shown.reason, shown.install} == {CLEAN}
    assert len(view.agents) <= 100
    assert len(view.roots) == 1000
    assert len(view.roots[0]) == 4096


async def test_sessions_that_a_hello_names_must_be_uuids(
    hub: Hub, runner: ScriptedRunner, session_id: str
) -> None:
    await runner.disconnect()
    runner.logs[EVIL] = runner.logs[session_id]
    async with ScriptedRunner(hub, info=runner.info, logs=runner.logs) as again:
        assert again.welcome is not None
        assert (again.welcome.acked, again.welcome.foreign) == ({session_id: 0}, [])


def errors() -> dict[str, tuple[Any, ErrorCode, int]]:
    """Errors as a runner may send them, and what a client gets."""
    return {
        "unknown code": ({"code": "quantum", "message": "x"}, ErrorCode.AGENT_PROTOCOL, 422),
        "no such status": ({"code": "conflict", "message": "x", "status": 999}, ErrorCode.AGENT_PROTOCOL, 422),
        "no status": ({"code": "conflict", "message": "x"}, ErrorCode.AGENT_PROTOCOL, 422),
        "status 200": ({"code": "conflict", "message": "x", "status": 200}, ErrorCode.AGENT_PROTOCOL, 422),
        "status is text": ({"code": "conflict", "message": "x", "status": "x"}, ErrorCode.AGENT_PROTOCOL, 422),
        "signs the client out": (
            {"code": "unauthorized", "message": "x", "status": 401}, ErrorCode.AGENT_PROTOCOL, 422
        ),
        "details are a list": ({"code": "conflict", "message": "x", "details": [1]}, ErrorCode.AGENT_PROTOCOL, 422),
        "message is a number": ({"code": "conflict", "message": 7, "status": 409}, ErrorCode.AGENT_PROTOCOL, 422),
        "no message": ({"code": "conflict", "status": 409}, ErrorCode.AGENT_PROTOCOL, 422),
        "error is text": ("boom", ErrorCode.AGENT_PROTOCOL, 422),
        "huge message": ({"code": "conflict", "message": EVIL * 9999, "status": 409}, ErrorCode.CONFLICT, 409),
        "huge details": (
            {"code": "conflict", "message": "x", "status": 409, "details": {"x": "y" * 100_000}},
            ErrorCode.CONFLICT, 409,
        ),
        "details name parameters": (
            {"code": "conflict", "message": "x", "status": 409, "details": {"self": 1, "message": 2, "code": 3}},
            ErrorCode.CONFLICT, 409,
        ),
        "deep details": (
            {"code": "conflict", "message": "x", "status": 409, "details": {"x": nested(90)}}, ErrorCode.CONFLICT, 409
        ),
    }  # fmt: skip


@pytest.mark.parametrize("attack", errors())
async def test_a_malformed_error_of_a_runner_is_a_proper_error(
    hub: Hub, runner: ScriptedRunner, session_id: str, attack: str
) -> None:
    given, code, status = errors()[attack]

    def answer(call: Call) -> Reply:
        reply = decode_at_hub(json.dumps({"t": "reply", "id": call.id, "error": given}).encode())
        assert isinstance(reply, Reply)
        return reply

    runner.answers[Abort] = answer
    with pytest.raises(FarsteerError) as raised:
        await hub.sessions.abort(ME, session_id)
    error = raised.value
    assert (error.code, error.status) == (code, status)
    assert 0 < len(error.message) <= 4000
    assert "\x1b" not in error.message
    assert len(encode(error.details)) < 70_000
    runner.answers[Create] = answer
    result = await hub.sessions.create(ME, _creation(runner))
    assert isinstance(result, CreationFailed)
    assert (result.error.code, result.error.status) == (code, status)


def _creation(runner: ScriptedRunner) -> CreateSession:
    return CreateSession(machine_id=runner.info.id, directory="/work")


async def test_a_state_of_another_session_fails_the_creation(hub: Hub, runner: ScriptedRunner) -> None:
    foreign = SessionState(id=new_id(), agent="demo", directory="/")
    runner.answers[Create] = lambda call: Reply(id=call.id, state=foreign)
    result = await hub.sessions.create(ME, _creation(runner))
    assert isinstance(result, CreationFailed)
    assert result.error.code is ErrorCode.AGENT_PROTOCOL


async def test_steps_of_a_creation_are_cleaned_and_bounded(hub: Hub, runner: ScriptedRunner) -> None:
    lines = [LogLine(1, EVIL, EVIL, EVIL, EVIL)] * 5000
    error = ErrorRecord(code=ErrorCode.AGENT_DIED, message=EVIL, status=422)
    runner.answers[Create] = lambda call: Reply(id=call.id, error=error, logs=lines)
    result = await hub.sessions.create(ME, _creation(runner))
    assert isinstance(result, CreationFailed)
    assert len(result.logs) < 300
    assert (result.logs[1].step, result.logs[1].status, result.logs[1].code) == (CLEAN, "ok", CLEAN)


@pytest.mark.parametrize("result", [None, 7, "x", {"a": 1}, [1], [{"nativeId": 1}], nested(80)], ids=repr)
async def test_a_result_of_the_wrong_shape_is_a_proper_error(
    hub: Hub, runner: ScriptedRunner, session_id: str, result: Any
) -> None:
    runner.answers[ListConversations] = lambda call: Reply(id=call.id, result=result)
    with pytest.raises(AgentError) as raised:
        await hub.imports.conversations(ME, runner.info.id, agent="demo", directory=None, limit=10)
    assert raised.value.code is ErrorCode.AGENT_PROTOCOL


async def test_conversations_are_cleaned_and_bounded(hub: Hub, runner: ScriptedRunner) -> None:
    one = {
        "nativeId": "n",
        "agent": "demo",
        "directory": "/",
        "updatedAt": 1,
        "title": EVIL,
        "sessionId": "../x",
    }
    listing = [one | {"nativeId": "x" * 9999}, *[one] * 100]
    runner.answers[ListConversations] = lambda call: Reply(id=call.id, result=listing)
    listed = await hub.imports.conversations(ME, runner.info.id, agent="demo", directory=None, limit=10)
    assert len(listed.conversations) == 9
    assert (listed.conversations[0].title, listed.conversations[0].session_id) == (CLEAN, None)


async def test_a_rewind_with_a_wrong_answer_is_a_proper_error(
    hub: Hub, runner: ScriptedRunner, session_id: str
) -> None:
    await runner.append(session_id, ev.UserMessage(item_id="1", text="hello"))

    def rewound(call: Call) -> Reply:
        return Reply(id=call.id, result={"kind": "rewound"})

    runner.answers[Rewind] = rewound
    with pytest.raises(FarsteerError) as raised:
        await hub.rewinds.rewind(ME, session_id, RewindSession(seq=1))
    assert raised.value.status in (404, 422)


def test_fields_that_cannot_be_decoded_do_not_end_the_link() -> None:
    entry = encode_entry(make_entry("s", 1, ev.Notice(text="x"), 1))
    events = decode_at_hub(
        encode({"t": "events", "session": "s", "items": [entry], "state": {"status": "new"}})
    )
    assert isinstance(events, Events)
    assert (decode_entry(bytes(events.entries[0].body)).seq, events.state) == (1, None)
    deltas = decode_at_hub(
        b'{"t":"deltas","session":"s","deltas":[{"messageId":"1","kind":"smell","text":"x"}]}'
    )
    assert deltas == Deltas(session="s", deltas=[])
    reply = decode_at_hub(b'{"t":"reply","id":3,"state":7}')
    assert isinstance(reply, Reply)
    assert reply.error is not None
    assert reply.error.code is ErrorCode.AGENT_PROTOCOL
