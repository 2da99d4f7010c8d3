"""Plays what the real Droid once said to the adapter, and writes down what the adapter made of it.

A transcript has one line per message: `in` is what a client wrote, `out` is what Droid wrote. Each `in` is done again
through the launch; the answer in the transcript is then given to the request the launch made. What the adapter asks of
its own accord is confirmed. `golden/` holds the result, one line each, with short names in place of ids.

To write the golden files anew: `.venv/bin/python -m tests.agents.droid.replay`. Read what changed before you commit it.
"""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Coroutine
from pathlib import Path
from typing import Any
from unittest.mock import patch

import msgspec

from farsteer.agents.base import (
    ApprovalAsked,
    ApprovalWithdrawn,
    DeltaEmitted,
    EventEmitted,
    Exited,
    LaunchPlan,
    Output,
    Prompt,
    Registered,
    TurnEnded,
)
from farsteer.agents.droid import launch as launch_module
from farsteer.agents.droid.launch import DroidLaunch
from farsteer.agents.droid.notes import Settings
from farsteer.agents.droid.settings import mode_of
from farsteer.core.approvals import Answer, Approval, ApprovalKind, Outcome
from farsteer.core.errors import FarsteerError
from farsteer.core.modes import PermissionMode, ReasoningEffort
from tests.agents.droid.peer import Peer, Recorder, plan

HERE = Path(__file__).parent
TRANSCRIPTS = sorted((HERE / "transcripts").glob("*.jsonl"))
GOLDEN = HERE / "golden"

_UUID = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}")
_LONG = 400


class Replay:
    def __init__(self) -> None:
        self._sink = Recorder()
        self._peer: Peer | None = None
        self._launch: DroidLaunch | None = None
        self._ids: dict[str, str] = {}
        """The transcript's name of each request, and ours."""
        self._doing: list[asyncio.Task[Any]] = []
        self._turns = 0
        self._written: list[str] = []
        self._told = self._heard = 0

    async def play(self, transcript: Path) -> list[str]:
        process = type("Process", (), {"start": staticmethod(self._start_process)})
        with patch.object(launch_module, "AgentProcess", process):
            for line in transcript.read_text().splitlines():
                entry = json.loads(line)
                if "in" in entry:
                    await self._say(entry["in"])
                else:
                    await self._hear(entry["out"])
                self._note()
            if self._peer is not None:
                await self._peer.exit(-9 if "_kill_" in transcript.name else 0)
            await asyncio.gather(*self._doing, return_exceptions=True)
            self._note()
        return _named(_merged(self._written))

    def _start_process(self, argv: Any, *, on_lines: Any, on_exit: Any, environment: Any, **_: Any) -> Peer:
        self._peer = Peer(on_lines, on_exit, environment)
        return self._peer

    # -- what the client did

    async def _say(self, line: dict[str, Any]) -> None:
        if line.get("type") == "response":
            await self._answer(line)
            return
        method, params = str(line.get("method", "")).removeprefix("droid."), line.get("params")
        if (
            not isinstance(params, dict)
            or not isinstance(line.get("id"), str)
            or "factoryApiVersion" not in line
        ):
            self._written.append(f"(the client wrote what the adapter never does: {json.dumps(line)[:100]})")
            return
        if not all(task.done() for task in self._doing):
            self._written.append(f"(not done again: {method}: the adapter waits for the answer before)")
            return
        action = self._action(method, params)
        if action is None:
            self._written.append(f"(not done again: {method})")
            return
        task = asyncio.create_task(self._do(method, action))
        self._doing.append(task)
        written = await self._until_written(task)
        if written is not None:
            self._ids[line["id"]] = written

    def _action(self, method: str, params: dict[str, Any]) -> Coroutine[Any, Any, Any] | None:
        launch = self._launch
        if launch is None:
            if method == "initialize_session":
                return self._start(plan(mode=_mode(params), model=params.get("modelId")))
            return self._start(plan(params["sessionId"], model=None)) if method == "load_session" else None
        match method:
            case "add_user_message" if "text" in params:
                self._turns += 1
                return launch.send(Prompt(turn_id=f"turn-{self._turns}", text=params["text"]))
            case "interrupt_session":
                return launch.interrupt()
            case "list_mcp_tools":
                return launch.commands.mcp_tools()
            case "update_session_settings" if params.keys() <= {
                "interactionMode",
                "autonomyLevel",
            } and _known(params):
                return launch.set_permission_mode(_mode(params))
            case "update_session_settings" if params.keys() == {"modelId"}:
                return launch.set_model(params["modelId"])
            case "update_session_settings" if params.get("reasoningEffort") == "xhigh":
                return launch.set_effort(ReasoningEffort.XHIGH)
            case _:
                return launch._rpc.call(method, params, 10.0)

    async def _start(self, asked: LaunchPlan) -> None:
        self._launch = await DroidLaunch.start(("droid",), asked, self._sink)

    async def _do(self, method: str, action: Coroutine[Any, Any, Any]) -> None:
        try:
            await action
        except FarsteerError as error:
            self._note()
            self._written.append(
                f"{method} fails: {type(error).__name__} {error.code.value}: {error.message}"
            )

    async def _answer(self, line: dict[str, Any]) -> None:
        """As the person answered, or as near as the adapter lets anybody come."""
        launch, result = self._launch, line.get("result")
        assert launch is not None
        found = [approval for approval in self._sink.approvals if approval.id == line["id"]]
        if not found:
            return
        try:
            await launch.answer(found[0], _answer(found[0], result))
        except FarsteerError as error:
            self._written.append(f"answer fails: {error.message}")
            await launch.answer(found[0], Answer(outcome=Outcome.DENIED, option_id="cancel"))

    async def _until_written(self, task: asyncio.Task[Any]) -> str | None:
        """Our name of the request that the action makes; None if it makes none."""
        while not task.done():
            if self._peer is not None and len(self._peer.written) > self._peer.taken:
                return str((await self._peer.next())["id"])
            await asyncio.sleep(0)
        return None

    # -- what Droid said

    async def _hear(self, line: dict[str, Any]) -> None:
        peer = self._peer
        if peer is None:
            self._written.append("(said before the adapter listened)")
            return
        if line.get("type") == "response" and line.get("id") is not None:
            line = {**line, "id": self._ids.get(line["id"], f"unknown {line['id']}")}
        payload = (line.get("params") or {}).get("notification") or {}
        if "requestId" in payload and payload["type"] == "create_message":
            payload["requestId"] = self._ids.get(payload["requestId"], payload["requestId"])
        peer.protocol = line.get("factoryProtocolVersion")
        await peer.hear(line)
        await self._settle()

    async def _settle(self) -> None:
        """Let what waits for this line go on; confirm what the adapter asks of its own accord."""
        peer = self._peer
        assert peer is not None
        for _ in range(20):
            await asyncio.sleep(0)
            while len(peer.written) > peer.taken:
                own = await peer.next()
                if own["type"] == "request":
                    self._note()
                    await peer.answer(own)

    # -- what is written down

    def _note(self) -> None:
        if self._peer is not None:
            told = self._peer.written[self._told :]
            self._told = len(self._peer.written)
            self._written += [_sent(line) for line in told]
        said = self._sink.outputs[self._heard :]
        self._heard += len(said)
        self._written += [_line(output) for output in said]


def _known(params: dict[str, Any]) -> bool:
    return params.get("autonomyLevel", "off") in ("off", "low", "medium", "high") and params.get(
        "interactionMode", "auto"
    ) in ("auto", "spec")


def _mode(params: dict[str, Any]) -> PermissionMode:
    return mode_of(msgspec.convert(params, Settings)) or PermissionMode.DEFAULT


def _answer(approval: Approval, result: Any) -> Answer:
    if approval.kind is ApprovalKind.QUESTION:
        answers = result.get("answers") or []
        if result.get("cancelled") or not all(isinstance(one, dict) for one in answers):
            return Answer(outcome=Outcome.DENIED)
        return Answer(
            outcome=Outcome.APPROVED, answers={str(one["index"]): [one["answer"]] for one in answers}
        )
    selected = result.get("selectedOption") if isinstance(result, dict) else "cancel"
    outcome = Outcome.DENIED if selected == "cancel" else Outcome.APPROVED
    return Answer(outcome=outcome, option_id=selected, message=(result or {}).get("comment"))


def _sent(line: dict[str, Any]) -> str:
    if line["type"] == "response":
        return f"> answer {line['id']} {_json(line.get('result') or line.get('error'))}"
    return f"> {line['method'].removeprefix('droid.')} {_json(line['params'])}"


def _line(output: Output) -> str:
    match output:
        case EventEmitted():
            fields = msgspec.to_builtins(output.event)
            return f"{fields.pop('kind')} {_json(fields)}"
        case DeltaEmitted(delta=delta):
            text = json.dumps(delta.text, ensure_ascii=False)
            return f"… {delta.kind.value} {delta.message_id} {delta.offset} {text}"
        case ApprovalAsked(approval=approval):
            fields = msgspec.to_builtins(approval)
            del fields["createdAt"]
            return f"asked {fields.pop('kind')} {_json(fields)}"
        case ApprovalWithdrawn():
            return f"withdrawn {output.approval_id}"
        case TurnEnded():
            return f"END {output.turn_id} {output.reason.value}" + (
                f": {output.error}" if output.error else ""
            )
        case Registered():
            return f"registered {output.native_id}"
        case Exited():
            return f"EXIT {output.exit_code} {output.reason}"


def _json(value: Any) -> str:
    return json.dumps(_clipped(value), ensure_ascii=False)


def _clipped(value: Any) -> Any:
    if isinstance(value, str) and len(value) > _LONG:
        return value[:_LONG] + "…"
    if isinstance(value, dict):
        return {key: _clipped(one) for key, one in value.items()}
    return [_clipped(one) for one in value] if isinstance(value, list) else value


def _merged(lines: list[str]) -> list[str]:
    """Fragments that follow each other are one line."""
    merged: list[str] = []
    for line in lines:
        last = merged[-1].split(" ", 4) if merged else []
        this = line.split(" ", 4)
        if line.startswith("… ") and last[:3] == this[:3] and int(last[3]) < int(this[3]):
            text = json.dumps(json.loads(last[4]) + json.loads(this[4]), ensure_ascii=False)
            merged[-1] = " ".join((*last[:4], text))
        else:
            merged.append(line)
    return merged


def _named(lines: list[str]) -> list[str]:
    names: dict[str, str] = {}
    return [
        _UUID.sub(lambda found: names.setdefault(found[0], f"id{len(names) + 1}"), line) for line in lines
    ]


def golden_of(transcript: Path) -> Path:
    return GOLDEN / f"{transcript.stem}.txt"


async def replay(transcript: Path) -> str:
    async with asyncio.timeout(30):
        return "\n".join(await Replay().play(transcript)) + "\n"


def main() -> None:
    GOLDEN.mkdir(exist_ok=True)
    for transcript in TRANSCRIPTS:
        golden_of(transcript).write_text(asyncio.run(replay(transcript)))


if __name__ == "__main__":
    main()
