"""Agents with hostile output: a Droid whose lines are mutated, and the demo agent's own faults."""

from __future__ import annotations

import asyncio
import time

from tests.fuzz.attack import Attack
from tests.fuzz.attacks.rest import check_answer

_FAULTS = (
    "garbage", "noise", "repeat", "end early", "late usage", "background 5", "crash", "crash mid", "fail \x1b[31m",
    "bigline 3", "exit 3", "flood 2000", "orphan", "say \u202e\x1b]0;x\x07\x00",
)  # fmt: skip
_DROID_TEXTS = (
    "say hello",
    "think x\nsay y",
    "write a.txt hello",
    "run echo hello",
    "ask",
    "plan",
    "anything",
)
_SECONDS = 60.0
_START_SECONDS = 120.0
"""The hub gives an agent less time than this to start."""
_OPEN = ("working", "starting", "waiting")


async def play(attack: Attack) -> None:
    mutator, target = attack.mutator, attack.target
    droid = mutator.chance(0.7)
    folder = target.root / "agents" / str(attack.number)
    folder.mkdir(parents=True)
    (folder / "seed").write_text(str(mutator.random.getrandbits(40)))
    body = {
        "machineId": target.machine_id, "directory": str(folder), "agent": "droid" if droid else "demo",
        "permissionMode": "default",
    }  # fmt: skip
    answer = await target.request("POST", "/api/sessions", body, seconds=_START_SECONDS)
    if answer.status_code >= 500 and '"agent_' not in answer.text:
        check_answer(attack, answer)
    if not answer.is_success:
        return
    session = answer.json()["sessionId"]
    place = f"/api/sessions/{session}"
    for _ in range(mutator.pick((1, 3))):
        text = mutator.pick(_DROID_TEXTS if droid else _FAULTS)
        attack.sent(text.encode())
        check_answer(attack, await target.request("POST", f"{place}/messages", {"text": text}))
        await _until_idle(attack, place)
    for path in (
        f"{place}/messages?limit=200",
        f"{place}/export?format=markdown",
        f"{place}/export?format=jsonl",
    ):
        check_answer(attack, await target.request("GET", path))
    check_answer(attack, await target.request("DELETE", place))


async def _until_idle(attack: Attack, place: str) -> None:
    """Wait until the turn has ended. What only a person can answer is denied; a turn without end is interrupted."""
    target = attack.target
    begun = time.monotonic()
    interrupted = False
    while True:
        session = (await target.request("GET", place)).json()["session"]
        if session["status"] not in _OPEN and not session["queue"]:
            return
        for view in (await target.request("GET", "/api/approvals")).json()["approvals"]:
            if view["sessionId"] == session["id"]:
                await target.request("POST", f"{place}/permissions/{view['approval']['id']}/deny", {})
        if time.monotonic() - begun > _SECONDS:
            raise attack.fail(f"the session is still {session['status']} {_SECONDS:g} s after a message")
        if time.monotonic() - begun > 3 and not interrupted:
            interrupted = True
            check_answer(attack, await target.request("POST", f"{place}/stop"))
        await asyncio.sleep(0.1)
