"""Replays recorded transcripts of the real Droid to the adapter and prints what the adapter makes of them.

A transcript has one line per message: `in` is what a client wrote, `out` is what Droid wrote. Each `in` is repeated
through the launch, and the recorded response is given to the request that the launch makes. Other requests of the
adapter are answered with success. `golden/` holds the result, one line each, with short names in place of ids.

To regenerate the golden files: `.venv/bin/python -m tests.agents.droid.replay`. Read the changes before committing.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Coroutine
from pathlib import Path
from typing import Any
from unittest.mock import patch

import msgspec

from farsteer.agents import process_launch
from farsteer.agents.base import LaunchPlan, Prompt
from farsteer.agents.droid.launch import DroidLaunch
from farsteer.agents.droid.protocol import Settings
from farsteer.agents.droid.settings import permission_mode_of
from farsteer.core.approvals import Answer, Approval, ApprovalKind, Outcome
from farsteer.core.errors import FarsteerError
from farsteer.core.modes import PermissionMode, ReasoningEffort
from tests.agents.droid.fake_droid import FakeDroid, OutputRecorder, plan
from tests.support.outputs import format_json, format_output, merge_deltas, with_short_ids

HERE = Path(__file__).parent
TRANSCRIPTS = sorted((HERE / "transcripts").glob("*.jsonl"))
GOLDEN = HERE / "golden"


class Replay:
    def __init__(self) -> None:
        self._sink = OutputRecorder()
        self._droid: FakeDroid | None = None
        self._launch: DroidLaunch | None = None
        self._ids: dict[str, str] = {}
        """Our id of each recorded request."""
        self._actions: list[asyncio.Task[Any]] = []
        self._turns = 0
        self._printed: list[str] = []
        self._printed_lines = self._printed_outputs = 0

    async def play(self, transcript: Path) -> list[str]:
        process = type("Process", (), {"start": staticmethod(self._start_process)})
        with patch.object(process_launch, "AgentProcess", process):
            for line in transcript.read_text().splitlines():
                entry = json.loads(line)
                if "in" in entry:
                    await self._replay_input(entry["in"])
                else:
                    await self._replay_output(entry["out"])
                self._print_new()
            if self._droid is not None:
                await self._droid.exit(-9 if "_kill_" in transcript.name else 0)
            await asyncio.gather(*self._actions, return_exceptions=True)
            self._print_new()
        return with_short_ids(merge_deltas(self._printed))

    def _start_process(
        self, argv: Any, *, on_lines: Any, on_exit: Any, environment: Any, **_: Any
    ) -> FakeDroid:
        self._droid = FakeDroid(on_lines, on_exit, environment)
        return self._droid

    # -- the client's lines

    async def _replay_input(self, line: dict[str, Any]) -> None:
        if line.get("type") == "response":
            await self._answer(line)
            return
        method, params = str(line.get("method", "")).removeprefix("droid."), line.get("params")
        if (
            not isinstance(params, dict)
            or not isinstance(line.get("id"), str)
            or "factoryApiVersion" not in line
        ):
            self._printed.append(f"(not replayed, the adapter never writes this: {json.dumps(line)[:100]})")
            return
        if not all(task.done() for task in self._actions):
            self._printed.append(f"(not replayed, the adapter waits for the previous answer: {method})")
            return
        action = self._action(method, params)
        if action is None:
            self._printed.append(f"(not replayed: {method})")
            return
        task = asyncio.create_task(self._do(method, action))
        self._actions.append(task)
        request_id = await self._next_request_id(task)
        if request_id is not None:
            self._ids[line["id"]] = request_id

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
            case "update_session_settings" if params.keys() <= {
                "interactionMode",
                "autonomyLevel",
            } and _is_known_mode(params):
                return launch.set_permission_mode(_mode(params))
            case "update_session_settings" if params.keys() == {"modelId"}:
                return launch.set_model(params["modelId"])
            case "update_session_settings" if params.get("reasoningEffort") == "xhigh":
                return launch.set_effort(ReasoningEffort.XHIGH)
            case _:
                return launch._rpc.call(method, params, 10.0)

    async def _start(self, wanted: LaunchPlan) -> None:
        self._launch = await DroidLaunch.start(("droid",), wanted, self._sink)

    async def _do(self, method: str, action: Coroutine[Any, Any, Any]) -> None:
        try:
            await action
        except FarsteerError as error:
            self._print_new()
            self._printed.append(
                f"{method} fails: {type(error).__name__} {error.code.value}: {error.message}"
            )

    async def _answer(self, line: dict[str, Any]) -> None:
        """Answer as the person did, or deny if the adapter does not accept that answer."""
        launch, result = self._launch, line.get("result")
        assert launch is not None
        found = [approval for approval in self._sink.approvals if approval.id == line["id"]]
        if not found:
            return
        try:
            await launch.answer(found[0], _answer(found[0], result))
        except FarsteerError as error:
            self._printed.append(f"answer fails: {error.message}")
            await launch.answer(found[0], Answer(outcome=Outcome.DENIED, option_id="cancel"))

    async def _next_request_id(self, task: asyncio.Task[Any]) -> str | None:
        """Return the id of the request that the action makes, None if it makes none."""
        while not task.done():
            if self._droid is not None and len(self._droid.written) > self._droid.read_count:
                return str((await self._droid.next_line())["id"])
            await asyncio.sleep(0)
        return None

    # -- Droid's lines

    async def _replay_output(self, line: dict[str, Any]) -> None:
        droid = self._droid
        if droid is None:
            self._printed.append("(sent before the adapter listens)")
            return
        if line.get("type") == "response" and line.get("id") is not None:
            line = {**line, "id": self._ids.get(line["id"], f"unknown {line['id']}")}
        payload = (line.get("params") or {}).get("notification") or {}
        if "requestId" in payload and payload["type"] == "create_message":
            payload["requestId"] = self._ids.get(payload["requestId"], payload["requestId"])
        droid.protocol = line.get("factoryProtocolVersion")
        await droid.send(line)
        await self._let_adapter_run()

    async def _let_adapter_run(self) -> None:
        """Let the adapter handle the line, and answer the requests that it makes by itself."""
        droid = self._droid
        assert droid is not None
        for _ in range(20):
            await asyncio.sleep(0)
            while len(droid.written) > droid.read_count:
                line = await droid.next_line()
                if line["type"] == "request":
                    self._print_new()
                    await droid.respond(line)

    # -- the result

    def _print_new(self) -> None:
        if self._droid is not None:
            lines = self._droid.written[self._printed_lines :]
            self._printed_lines = len(self._droid.written)
            self._printed += [_format_line(line) for line in lines]
        outputs = self._sink.outputs[self._printed_outputs :]
        self._printed_outputs += len(outputs)
        self._printed += [format_output(output) for output in outputs]


def _is_known_mode(params: dict[str, Any]) -> bool:
    return params.get("autonomyLevel", "off") in ("off", "low", "medium", "high") and params.get(
        "interactionMode", "auto"
    ) in ("auto", "spec")


def _mode(params: dict[str, Any]) -> PermissionMode:
    return permission_mode_of(msgspec.convert(params, Settings)) or PermissionMode.DEFAULT


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


def _format_line(line: dict[str, Any]) -> str:
    if line["type"] == "response":
        return f"> answer {line['id']} {format_json(line.get('result') or line.get('error'))}"
    return f"> {line['method'].removeprefix('droid.')} {format_json(line['params'])}"


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
