"""docs/events.md is executed: its programs run, and its events are what a hub sends, which follows the schemas."""

from __future__ import annotations

import asyncio
import json
import os
import re
import shutil
import signal
import sys
from asyncio.subprocess import DEVNULL, PIPE, Process
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any, cast

import jsonschema_rs
import msgspec
import pytest
from msgspec import UnsetType

from farsteer.core.api import NewToken, SessionView
from farsteer.core.clock import now_ms
from farsteer.core.events import AgentMessage
from farsteer.core.live_events import CONNECTION_EVENTS, FIXED_FIELDS, SENT, SessionChanges
from farsteer.faces.app import ServerConfig, serve
from farsteer.faces.events.sse import EventStreams
from farsteer.faces.rest.activity import event_endpoints
from farsteer.faces.rest.openapi import document
from farsteer.hub import Hub
from farsteer.hub.rules.view import FIELDS, FromState
from tests.docs.live_events import Run, choose, run, shape
from tests.hub.conftest import create
from tests.hub.scripted import ScriptedRunner, caller
from tests.support.agents_table import UPDATE_VARIABLE
from tests.support.eventually import eventually
from tests.support.node import JS, NODE
from tests.support.stack import OWNER, farsteer

FILE = Path(__file__).parents[2] / "docs" / "events.md"
PAGE = FILE.read_text()
SCHEMAS: dict[str, Any] = document(event_endpoints(cast("EventStreams", None)))["components"]["schemas"]
SECONDS = 30.0


def examples() -> dict[str, tuple[str, Any]]:
    """Return words and example of each type on the page."""
    found = re.findall(r"^### `([a-z-]+)`\n\n(.*?)\n\n```json\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)
    return {type: (words, json.loads(example)) for type, words, example in found}


def block(language: str) -> str:
    (found,) = re.findall(rf"^```{language}\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)
    return found


def closed(schema: Any) -> Any:
    """Return the schema without room for fields that it does not name."""
    if isinstance(schema, list):
        return [closed(item) for item in cast("list[Any]", schema)]
    if not isinstance(schema, dict):
        return schema
    result: dict[str, Any] = {key: closed(value) for key, value in cast("dict[str, Any]", schema).items()}
    if result.get("type") == "object" and "properties" in result:
        result["additionalProperties"] = False
    return result


def validator(name: str) -> Any:
    return jsonschema_rs.validator_for(
        {"$ref": f"#/components/schemas/{name}", "components": {"schemas": closed(SCHEMAS)}}
    )


VALIDATORS = {type: validator(kind.__name__) for type, kind in {**SENT, **CONNECTION_EVENTS}.items()}


def test_the_page_has_every_type_with_a_valid_example() -> None:
    shown = examples()
    assert [*shown] == [*SENT]
    for type, (words, example) in shown.items():
        assert words == SENT[type].__doc__
        VALIDATORS[type].validate(example)


def test_an_update_of_a_session_may_have_every_field_that_changes() -> None:
    in_every_update = {"seq", "updated_at", "last_message", "queue"}
    changing = {name for name, source in FIELDS.items() if isinstance(source, FromState)} | in_every_update
    assert changing == FIELDS.keys() - FIXED_FIELDS
    view = {field.name: field.type for field in msgspec.structs.fields(SessionView)}
    changes = {field.name: field.type for field in msgspec.structs.fields(SessionChanges)}
    assert {*changes} - {"partial", "queue_changes"} == changing
    assert all(changes[name] == view[name] | UnsetType for name in changing)


@pytest.mark.slow
async def test_a_hub_sends_what_the_schemas_and_the_page_say(home: Path) -> None:
    async with farsteer(home) as stack:
        received = await run(stack)
    check_run(received)
    if os.environ.get(UPDATE_VARIABLE):
        text = PAGE
        for type in SENT:
            example = json.dumps(choose(type, received.events), indent=2)
            start = text.index("```json\n", text.index(f"### `{type}`")) + len("```json\n")
            text = text[:start] + example + "\n" + text[text.index("```", start) :]
        FILE.write_text(text)
        return
    for type, (_, example) in examples().items():
        assert shape(example) == shape(choose(type, received.events)), f"{UPDATE_VARIABLE}=1 writes the page"


def check_run(received: Run) -> None:
    for event in received.events:
        VALIDATORS[event["type"]].validate(event)
    told = [
        *received.sse,
        *((kind, value) for kind, value in received.socketio.log if kind in CONNECTION_EVENTS),
    ]
    for name, value in told:
        if name in CONNECTION_EVENTS:
            VALIDATORS[name].validate(value)
    assert {event["type"] for event in received.socketio.events} == SENT.keys()
    assert {event["type"] for event in received.sse_events} == SENT.keys()
    stored, of_sse = (
        [event for event in events if "cursor" in event]
        for events in (received.socketio.events, received.sse_events)
    )
    assert stored == of_sse
    # The run was varied enough.
    kinds = {event["message"]["content"]["kind"] for event in stored if "message" in event}
    assert len(kinds) >= 15, kinds
    updates = [event["data"] for event in stored if event["type"] == "session-updated"]
    names = {name for update in updates for name in update}
    assert names >= {"queue", "queueChanges", "approvals", "usage", "title", "model"}
    reasons = [event.get("data") for event in stored if event["type"] == "session-removed"]
    assert None in reasons
    assert {"reason": "retention_age"} in reasons


class Program:
    """A program of the page that runs until it is ended."""

    def __init__(self, process: Process) -> None:
        self._process = process
        self.lines: list[str] = []

    async def until(self, start: str) -> str:
        """Return the first line that starts so."""
        assert self._process.stdout is not None
        async with asyncio.timeout(SECONDS):
            while not (found := [line for line in self.lines if line.startswith(start)]):
                line = await self._process.stdout.readline()
                assert line, f"ended after {self.lines}"
                self.lines.append(line.decode().rstrip())
        return found[0]


@asynccontextmanager
async def running(*argv: Path | str, env: dict[str, str]) -> AsyncGenerator[Program]:
    # With its own group: a shell has children.
    process = await asyncio.create_subprocess_exec(
        *argv, stdin=DEVNULL, stdout=PIPE, env={"PATH": os.environ["PATH"], **env}, start_new_session=True
    )
    try:
        yield Program(process)
    finally:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        await process.communicate()


def here(language: str, port: int) -> str:
    """The example as printed, but for the port of this test's hub."""
    example = block(language)
    assert "127.0.0.1:3006" in example
    return example.replace("127.0.0.1:3006", f"127.0.0.1:{port}")


def keep_token(tmp_path: Path, secret: str) -> dict[str, str]:
    """Write a token where the examples look for it, and return their environment."""
    (tmp_path / ".farsteer").mkdir()
    (tmp_path / ".farsteer" / "token").write_text(secret + "\n")
    return {"HOME": str(tmp_path)}


def said(number: int) -> AgentMessage:
    return AgentMessage(message_id=f"m{number}", text=f"text {number}")


async def test_the_node_program_reconnects_with_a_new_jwt_and_misses_nothing(
    home: Path, free_port: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("farsteer.hub.auth.tokens.LIFETIME_MS", 2000)
    program = JS / f"events-{tmp_path.name}.mjs"
    program.write_text(here("js", free_port))
    hub = await Hub.open(home, OWNER)
    try:
        minted = await hub.tokens.create(caller(owner=True), NewToken(label="reader", scopes=["read"]))
        env = keep_token(tmp_path, minted.secret)
        async with ScriptedRunner(hub) as runner, running(NODE, program, env=env) as node:
            session = await create(hub, runner)
            async with serve(hub, ServerConfig(port=free_port)):
                await node.until("online-users-changed")
                connected_at = now_ms()
                await runner.append(session, said(1))
                first = await node.until("message-received")
                await eventually(lambda: now_ms() > connected_at + 2000)
            await runner.append(session, said(2))
            async with serve(hub, ServerConfig(port=free_port)):
                await runner.append(session, said(3))
                seq = int(first.rpartition(" ")[2])
                await node.until(f"message-received {session} {seq + 2}")
                entries = [line for line in node.lines if line.startswith("message-received")]
                assert entries == [f"message-received {session} {number}" for number in range(seq, seq + 3)]
                await hub.tokens.revoke(caller(), minted.token.id)
                assert await node.until("closed") == "closed unauthorized this token was revoked"
                assert (await node.until("refused")).startswith("refused unauthorized")
    finally:
        program.unlink()
        await hub.close()


async def test_the_programs_for_server_sent_events(home: Path, free_port: int, tmp_path: Path) -> None:
    if shutil.which("curl") is None and "CI" not in os.environ:
        pytest.skip("this machine has no curl")
    env = keep_token(tmp_path, OWNER)
    hub = await Hub.open(home, OWNER)
    try:
        async with ScriptedRunner(hub) as runner, serve(hub, ServerConfig(port=free_port)) as url:
            python = running(
                sys.executable,
                "-uc",
                block("python"),
                env={**env, "FARSTEER_HUB": url, "CLI_API_TOKEN": OWNER},
            )
            curl = running("/bin/sh", "-euc", here("sh", free_port), env=env)
            async with python as by_python, curl as by_curl:
                await by_curl.until("event: ready")
                await eventually(lambda: hub.presence.count("default") == 2)
                session = await create(hub, runner)
                assert await by_python.until("session-added") == f"session-added {session}"
                assert json.loads((await by_curl.until('data: {"type"'))[6:])["sessionId"] == session
    finally:
        await hub.close()
