"""`/link` as a hostile runner with a valid token: hello, events, deltas, and replies to the hub's calls."""

from __future__ import annotations

import asyncio
import json
from hashlib import sha256
from typing import Any
from uuid import UUID

import httpx
import msgspec

from farsteer.core import events as ev
from farsteer.core.capabilities import AgentInfo, MachineInfo
from farsteer.core.events import Delta, DeltaKind
from farsteer.core.session import SessionState
from farsteer.core.wire import to_builtins
from farsteer.link.identity import KEY_BYTES, MachineKey, token_digest
from farsteer.link.messages import PROTOCOL, Challenge, Hello, Proof
from farsteer.link.transfers import Announcement, FrameKind, pack_announcement, pack_part
from tests.fuzz.attack import Attack
from tests.fuzz.attacks.rest import check_answer
from tests.fuzz.wire import BINARY, WebSocketWire, connected

_CREATE_SECONDS = 5.0
_HANDSHAKE_SECONDS = 20.0


async def play(attack: Attack) -> None:
    mutator, target = attack.mutator, attack.target
    machine = str(UUID(int=attack.worker + 1, version=4))
    session, creating = None, None
    try:
        async with connected(attack) as wire:
            token = target.runner_token if mutator.chance(0.97) else "wrong"
            if not await wire.upgrade("/link", {"Authorization": f"Bearer {token}"}):
                return
            if not await _say_hello(attack, wire, machine):
                return
            creating = asyncio.create_task(_create(attack, machine))
            session = await _take_call(attack, wire)
            if session is not None:
                await _send_events(attack, wire, session)
    finally:
        # The link has ended, so the hub answers at once.
        if creating is not None:
            await creating
    if session is not None:
        await _read(attack, session)


async def _say_hello(attack: Attack, wire: WebSocketWire, machine: str) -> bool:
    """Connect as a machine. Returns whether the hub welcomes it."""
    mutator = attack.mutator
    agent = AgentInfo(name="demo", title="Demo", available=True, version="1", models=("m",))
    info = MachineInfo(
        id=machine, host="h", platform="linux", version="1", agents=(agent,), roots=("/",), name="n"
    )
    key = MachineKey(bytes([attack.worker]) * KEY_BYTES)
    hello = Hello(machine=info, sessions={mutator.uuid(): 3}, key=key.public, protocol=PROTOCOL)
    answer = await _ask(attack, wire, to_builtins(hello), mutator.chance(0.3))
    if answer is None or answer.get("t") != "challenge":
        return False
    challenge = msgspec.convert(answer, Challenge)
    signature = key.sign(challenge, machine, token_digest(attack.target.runner_token))
    answer = await _ask(attack, wire, to_builtins(Proof(signature=signature)), mutator.chance(0.2))
    return answer is not None and answer.get("t") == "welcome"


async def _ask(attack: Attack, wire: WebSocketWire, message: Any, mutated: bool) -> Any:
    """Send a message of the handshake and return the answer, or None if the hub has closed the link."""
    if mutated:
        await wire.send_oddly(attack.mutator.message(message), BINARY)
    else:
        await wire.frame(BINARY, json.dumps(message).encode())
    answer = await _receive(attack, wire, _HANDSHAKE_SECONDS)
    if answer is None and wire.open and not mutated:
        raise attack.fail(f"no answer to {message['t']} within {_HANDSHAKE_SECONDS:g} s")
    return None if answer is None else json.loads(answer)


async def _receive(attack: Attack, wire: WebSocketWire, seconds: float) -> bytes | None:
    """Return the next message that is JSON. Most marks are sent back."""
    while True:
        frame = await wire.receive(seconds)
        if frame is None or frame.startswith(b"{"):
            return frame
        if frame[0] == FrameKind.MARK:
            answer = bytes([FrameKind.MARK_READ]) + frame[1:]
            await wire.frame(BINARY, attack.mutator.bytes(answer) if attack.mutator.chance(0.02) else answer)


async def _send_in_parts(attack: Attack, wire: WebSocketWire, data: bytes) -> None:
    """Send a message as a transfer, with frames that are missing, changed, doubled or out of order."""
    mutator, number = attack.mutator, attack.mutator.random.randrange(1, 5)
    size = mutator.pick((len(data), len(data), len(data), 0, 1, len(data) + 1, 2**26, 2**26 + 1, 2**63))
    digest = sha256(data).digest() if mutator.chance(0.9) else mutator.random.randbytes(32)
    frames = [pack_announcement(Announcement(number, size, digest, mutator.pick((0, 1, 2**40))))]
    step = mutator.pick((1, 100, 10_000)) if len(data) < 2000 else 10_000
    for start in range(0, len(data), step):
        frames.append(pack_part(number, memoryview(data)[start : start + step]))
    extra = (
        FrameKind.CANCEL,
        FrameKind.MARK,
        FrameKind.MARK_READ,
        FrameKind.ACCEPT,
        FrameKind.REFUSE,
        0,
        8,
        9,
    )
    while mutator.chance(0.3):
        place = mutator.random.randint(0, len(frames))
        kind = mutator.random.random()
        if kind < 0.4:
            frames.insert(place, bytes([mutator.pick(extra)]) + number.to_bytes(4, "big"))
        elif kind < 0.6 and frames:
            del frames[place - 1]
        elif frames:
            frames.insert(place, mutator.bytes(mutator.pick(frames)))
    for frame in frames:
        await wire.frame(BINARY, frame)
    await _receive(attack, wire, 0.01)


async def _create(attack: Attack, machine: str) -> None:
    """Let the hub call this machine. Whatever the machine replies, the answer is an ordinary one."""
    body = {"machineId": machine, "directory": "/", "agent": "demo"}
    try:
        answer = await attack.target.request("POST", "/api/sessions", body)
    except httpx.HTTPError as error:
        raise attack.fail(f"the creation of a session was not answered: {error!r}") from error
    if answer.status_code == 500:
        raise attack.fail(f"the creation of a session: {answer.text[:500]}")


async def _take_call(attack: Attack, wire: WebSocketWire) -> str | None:
    """Reply to the call that creates a session. Returns the session's id if the reply was valid."""
    mutator = attack.mutator
    while wire.open:
        frame = await _receive(attack, wire, _CREATE_SECONDS)
        if frame is None:
            return None
        call = json.loads(frame)
        if call.get("t") != "call":
            continue
        session = call["session"]
        state = SessionState(id=session, agent="demo", directory="/")
        reply: dict[str, Any] = {
            "t": "reply", "id": call["id"], "seq": 0, "state": to_builtins(state), "result": None,
            "logs": [{"timestamp": 1, "step": "s", "message": "m", "status": "ok"}],
        }  # fmt: skip
        if mutator.chance(0.3):
            reply["error"] = {"code": "conflict", "message": "no", "details": {"a": 1}}
            del reply["state"]
        valid = mutator.chance(0.6)
        await wire.frame(BINARY, json.dumps(reply).encode() if valid else mutator.message(reply))
        return session if valid and "error" not in reply else None
    return None


async def _send_events(attack: Attack, wire: WebSocketWire, session: str) -> None:
    mutator, seq = attack.mutator, 0
    state = to_builtins(SessionState(id=session, agent="demo", directory="/"))
    delta = to_builtins(Delta(message_id="m", kind=DeltaKind.MESSAGE, text="t"))
    for _ in range(mutator.pick((1, 5, 20))):
        if not wire.open:
            return
        kind = mutator.random.random()
        if kind < 0.15:
            message: dict[str, Any] = {"t": "deltas", "session": session, "deltas": [delta] * 3}
        elif kind < 0.25:
            message = {"t": mutator.pick(("ping", "hello", "welcome", "call", "x")), "id": 1}
        elif kind < 0.35:
            message = {
                "t": "reply",
                "id": mutator.pick((0, 1, 2, -1, 2**70)),
                "error": {"code": "x", "message": "y"},
            }
        else:
            items: list[Any] = []
            for content in mutator.random.sample(_contents(session), 3):
                seq += 1
                entry = {
                    "id": mutator.uuid(),
                    "seq": seq,
                    "role": "agent",
                    "createdAt": 1,
                    "content": content,
                }
                items.append([seq, content["kind"], mutator.mutate(entry) if mutator.chance(0.5) else entry])
            message = {"t": "events", "session": session, "items": items, "state": state}
        data = json.dumps(message).encode() if mutator.chance(0.5) else mutator.message(message)
        if mutator.chance(0.3):
            await _send_in_parts(attack, wire, data)
        else:
            await wire.send_oddly(data, BINARY)
        await _receive(attack, wire, 0.01)


def _contents(session: str) -> list[Any]:
    """One event of each kind that an agent causes."""
    return [
        to_builtins(one)
        for one in (
            ev.AgentMessage(message_id="m", text="text"),
            ev.AgentThought(message_id="m", text="thought"),
            ev.UserMessage(item_id="i", text="hello", sent_from="x"),
            ev.ToolCall(
                tool_call_id="t", title="run", tool_kind=next(iter(ev.ToolKind)), status=next(iter(ev.ToolStatus)),
                input={"a": 1}, locations=(ev.Location(path="/a", line=1),), content=(ev.TextBlock(text="x"),),
            ),
            ev.ToolCallUpdate(tool_call_id="t", title="run", output={"a": [1]}),
            ev.Plan(entries=(ev.PlanEntry(content="c"),)),
            ev.CommandsUpdate(commands=(ev.SlashCommand(name="n"),)),
            ev.ModeUpdate(model="m"),
            ev.UsageUpdate(turn_id="t", input_tokens=5, cost_usd=0.5, model="m"),
            ev.TitleUpdate(title="title"),
            ev.TurnStart(turn_id="t", item_id="i"),
            ev.TurnEnd(turn_id="t", reason=next(iter(ev.TurnEndReason))),
            ev.Rewound(first_seq=1, files=ev.FilesRestored(status=next(iter(ev.FileRestore)))),
            ev.Notice(text="n", code="c"),
            ev.Other(native_kind="k", data={"a": [1, {"b": None}]}),
        )
    ]  # fmt: skip


async def _read(attack: Attack, session: str) -> None:
    """What was stored can be read, exported and deleted."""
    place = f"/api/sessions/{session}"
    for method, path in (
        ("GET", place), ("GET", f"{place}/messages?limit=200"), ("GET", f"{place}/export?format=jsonl"),
        ("GET", f"{place}/export?format=markdown"), ("GET", "/api/usage"), ("GET", "/api/approvals"), ("DELETE", place),
    ):  # fmt: skip
        try:
            check_answer(attack, await attack.target.request(method, path))
        except httpx.HTTPError as error:
            raise attack.fail(f"{method} {path} was not answered: {error!r}") from error
