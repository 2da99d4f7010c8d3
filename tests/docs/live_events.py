"""A run of a hub in which every type of live event is sent, and the examples of them in docs/events.md."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Callable, Iterator
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from typing import Any, cast

from farsteer.core.retention import RemovalReason, SessionRemoval
from tests.faces.events.clients import ReceivedEvents, python
from tests.faces.events.sse_client import Stream, subscribed
from tests.support.eventually import eventually
from tests.support.stack import Account, Stack

Json = dict[str, Any]


@dataclass(slots=True)
class Run:
    """What two clients received, over Socket.IO and as server-sent events."""

    socketio: ReceivedEvents
    sse: list[tuple[str, Json]] = field(default_factory=list[tuple[str, Json]])

    @property
    def sse_events(self) -> list[Json]:
        return [event for name, event in self.sse if name == "message"]

    @property
    def events(self) -> list[Json]:
        return [*self.socketio.events, *self.sse_events]


async def run(stack: Stack) -> Run:
    """Let every type of event be sent, and return what clients received until their token was revoked."""
    owner = await stack.sign_in(email="ann@example.com", clientId="phone")
    token = await owner.post_json("/api/tokens", {"label": "reader", "scopes": ["read"]}, 201)

    async def sign_in(client: str) -> str:
        reader = await stack.sign_in(token["secret"], email="bob@example.com", clientId=client)
        return reader.headers["authorization"].removeprefix("Bearer ")

    async with AsyncExitStack() as clients:
        laptop = python(stack.url, "websocket", {"token": await sign_in("laptop")})
        received = Run(await clients.enter_async_context(laptop))
        stream = await clients.enter_async_context(subscribed(stack.url, await sign_in("tablet")))
        reading = asyncio.create_task(_read(stream, received.sse))
        await received.socketio.until("ready")
        await eventually(lambda: bool(received.sse))
        await _converse(stack, owner)
        await _remove(stack, owner)
        for events in (lambda: received.socketio.events, lambda: received.sse_events):
            await eventually(lambda events=events: "machine-removed" in {event["type"] for event in events()})
        await owner.delete(f"/api/tokens/{token['token']['id']}")
        await received.socketio.until("closed")
        await reading
    return received


async def _read(stream: Stream, into: list[tuple[str, Json]]) -> None:
    while not into or into[-1][0] != "closed":
        name, _, event = await stream.next()
        into.append((name, event))


async def _converse(stack: Stack, owner: Account) -> None:
    """One session through most of what can happen to it."""
    session_id = await stack.create(owner)
    path = f"/api/sessions/{session_id}"
    await owner.post_json(f"{path}/typing", {"text": "say h"})
    await owner.put(f"{path}/draft", json={"text": "say h"})
    for text in ("say hello", "think hm", "todo", "slow 3", "fail oops"):
        await owner.turn(session_id, text)
    for text, answer in (("write a.txt hello", "approve"), ("plan", "deny")):
        await owner.say(session_id, text)
        approvals = (await owner.until(session_id, "waiting"))["approvals"]
        await owner.post_json(f"{path}/permissions/{approvals[0]['id']}/{answer}")
        await owner.until(session_id, "idle")
    # A queue of several messages, of which one is cancelled and one overtakes the others.
    await owner.say(session_id, "hang")
    await owner.until(session_id, "working")
    waiting = [await owner.say(session_id, f"say {number}") for number in range(3)]
    await owner.delete(f"{path}/queue/{waiting[1]}")
    await owner.post_json(f"{path}/queue/{waiting[2]}/send-now")
    await owner.until(session_id, "idle")
    await owner.patch(path, json={"title": "Examples"})
    await owner.post_json(f"{path}/permission-mode", {"mode": "plan"})
    await owner.post_json(f"{path}/model", {"model": "demo-1-mini", "reasoningEffort": "low"})
    log = await owner.messages(session_id, limit=200)
    last = max(entry["seq"] for entry in log if entry["content"]["kind"] == "user_message")
    await owner.post_json(f"{path}/rewind", {"seq": last})
    await owner.post_json(f"{path}/fork", {})
    await owner.request("DELETE", f"{path}/messages", json={"keepCount": 2})
    await owner.say(session_id, "crash")
    await owner.until(session_id, "stopped")


async def _remove(stack: Stack, owner: Account) -> None:
    """Delete every session, the first one by a rule, then the machine."""
    unused, *others = (await owner.get_json("/api/sessions"))["sessions"]
    await owner.post_json(f"/api/sessions/{unused['id']}/stop")

    async def removed_by_rule() -> bool:
        updated_at = (await owner.session(unused["id"]))["updatedAt"]
        removal = SessionRemoval(
            namespace="default", session_id=unused["id"], updated_at=updated_at, bytes=0, reason=RemovalReason.AGE,
        )  # fmt: skip
        return await stack.hub.store.remove_unused(removal) is not None

    await eventually(removed_by_rule)
    for session in others:
        await owner.delete(f"/api/sessions/{session['id']}")
    machine = (await owner.get_json("/api/machines"))["machines"][0]
    await stack.stop_runner()

    async def machine_removed() -> bool:
        return (await owner.delete(f"/api/machines/{machine['id']}")).status_code == 200

    await eventually(machine_removed)


_CHOICES: dict[str, Callable[[Json], bool]] = {
    "session-updated": lambda event: event["data"].get("title") == "Examples",
    "session-removed": lambda event: "data" not in event,
    "message-received": lambda event: event["message"]["content"]["kind"] == "agent_message",
    "machine-updated": lambda event: not event["data"]["active"],
}
"""Which event of a type is shown, if not the first one."""


def choose(type: str, events: list[Json]) -> Json:
    """Return the event that is the example of a type, with other ids, times and names."""
    fits = _CHOICES.get(type, lambda _: True)
    chosen = next(event for event in events if event["type"] == type and fits(event))
    return json.loads(_replace(json.dumps(_trim(chosen))))


def _trim(value: Any, key: str = "") -> Any:
    """Return the value with one agent, one command, and names of nobody's machine."""
    if isinstance(value, dict):
        return {name: _trim(inner, name) for name, inner in cast("Json", value).items()}
    if isinstance(value, list):
        items = cast("list[Any]", value)
        if key in ("agents", "commands"):
            items = [item for item in items if item["name"] in ("demo", "help")]
        return [_trim(item) for item in items]
    named = {"host": "build-1", "platform": "linux", "directory": "/home/ann/project"}
    if key == "name" and value not in ("demo", "help"):
        return "build-1"
    return named.get(key, value) if isinstance(value, str) else value


def _replace(text: str) -> str:
    uuids: dict[str, str] = {}

    def replace(found: re.Match[str]) -> str:
        return uuids.setdefault(found[0], f"{len(uuids) + 1:08x}-7d3c-4b0e-9a51-0c6f2e8d4b17")

    text = re.sub(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}", replace, text)
    text = re.sub(r'"cursor": "[^"]*-(\d+)"', r'"cursor": "5d41402a-\1"', text)
    return re.sub(r"\b1[78]\d{11}\b", "1790000000000", text)


def shape(value: Any) -> list[str]:
    """Return which fields a JSON value has, and what they are."""
    return sorted({*_paths(value)})


def _paths(value: Any, path: str = "") -> Iterator[str]:
    if isinstance(value, dict):
        for name, inner in cast("Json", value).items():
            yield from _paths(inner, f"{path}.{name}")
    elif isinstance(value, list):
        yield f"{path}[]"
        for item in cast("list[Any]", value):
            yield from _paths(item, f"{path}[]")
    else:
        yield f"{path}: {type(value).__name__}"
