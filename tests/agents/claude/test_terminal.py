"""Claude Code in a terminal whose hooks arrive before its transcript, as on a busy machine."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Sequence
from pathlib import Path
from typing import Any, TypeVar

import httpx
import pytest

from farsteer.agents.base import Followed, LaunchPlan, Output, TerminalCommand, TurnBegun, TurnEnded
from farsteer.agents.claude.hooks import TOKEN_VARIABLE
from farsteer.agents.claude.terminal import ClaudeTerminal
from farsteer.agents.process.environment import LAUNCH_VARIABLE
from farsteer.core.events import TurnEndReason
from farsteer.core.ids import new_id
from farsteer.core.launch import LaunchDecision, LaunchMode
from tests.agents.claude.test_follower import NATIVE, STOPPED, Transcript
from tests.agents.claude.test_transcripts import assistant, user

pytestmark = pytest.mark.slow

T = TypeVar("T")
SECONDS = 20.0
API_ERROR = assistant("error", None, "API Error: 400 scripted", isApiErrorMessage=True)


class Screen:
    """A terminal in which nothing runs: the test is Claude Code."""

    arguments: tuple[str, ...] = ()

    def __init__(self) -> None:
        self.command: TerminalCommand | None = None
        self._ended = asyncio.Event()

    async def run(self, command: TerminalCommand) -> int:
        self.command = command
        return 1

    async def wait(self) -> int | None:
        await self._ended.wait()
        return 0

    async def end(self, grace: float) -> None:
        self._ended.set()


class Interface:
    """A started launch, its hooks, its transcript and what it has put out."""

    def __init__(self, config: Path) -> None:
        self.transcript = Transcript(config)
        self._outputs: list[Output] = []
        self._changed = asyncio.Event()
        self._screen = Screen()
        self._client = httpx.AsyncClient()
        self._url = ""
        self.launch: ClaudeTerminal

    async def put(self, outputs: Sequence[Output]) -> None:
        self._outputs += outputs
        self._changed.set()

    async def start(self, plan: LaunchPlan) -> None:
        self.launch = await ClaudeTerminal.start("claude", plan, self, self._screen)
        command = self._screen.command
        assert command is not None
        settings = json.loads(command.argv[command.argv.index("--settings") + 1])
        self._url = settings["hooks"]["Stop"][0]["hooks"][0]["url"]
        self._client.headers["authorization"] = f"Bearer {command.environment[TOKEN_VARIABLE]}"

    async def hook(self, name: str, **payload: Any) -> None:
        body = {"hook_event_name": name, "session_id": NATIVE, **payload}
        (await self._client.post(self._url, json=body)).raise_for_status()

    async def close(self) -> None:
        await self.launch.stop()
        await self._client.aclose()

    async def outputs(self, kind: type[T], count: int) -> list[T]:
        """Wait for so many outputs of a kind, and return them."""
        async with asyncio.timeout(SECONDS):
            while len(found := [one for one in self._outputs if isinstance(one, kind)]) < count:
                self._changed.clear()
                await self._changed.wait()
        return found

    async def look(self) -> None:
        """Wait until the transcript was looked at, which shows nothing of the prompt yet."""
        before = len([one for one in self._outputs if isinstance(one, Followed)])
        self.transcript.add({"type": "system", "subtype": "informational", "uuid": new_id()})
        await self.outputs(Followed, before + 1)


@pytest.fixture
async def interface(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Interface]:
    monkeypatch.setenv("CLAUDE_CONFIG_DIR", str(tmp_path))
    environment = {"CLAUDE_CONFIG_DIR": str(tmp_path), LAUNCH_VARIABLE: f"test:1:{new_id()}"}
    decision = LaunchDecision(start=LaunchMode.CREATE, native_id=NATIVE)
    plan = LaunchPlan(
        session_id=NATIVE, directory=str(tmp_path), generation=1, decision=decision, environment=environment,
        agent_dir=str(tmp_path), state_dir=str(tmp_path),
    )  # fmt: skip
    interface = Interface(tmp_path)
    await interface.start(plan)
    yield interface
    await interface.close()


async def test_a_failure_that_is_told_before_its_prompt_is_in_the_transcript(interface: Interface) -> None:
    await interface.hook("UserPromptSubmit")
    await interface.hook("StopFailure", error="invalid_request", last_assistant_message="API Error: 400")
    await interface.look()
    interface.transcript.add(user("u1", None, "hello"))
    await interface.outputs(TurnBegun, 1)
    interface.transcript.add(API_ERROR)
    (end,) = await interface.outputs(TurnEnded, 1)
    assert (end.reason, end.error) == (TurnEndReason.FAILED, "API Error: 400 scripted")


async def test_a_failure_while_the_end_of_the_turn_before_is_not_in_the_transcript_yet(
    interface: Interface,
) -> None:
    await interface.hook("UserPromptSubmit")
    interface.transcript.add(user("u1", None, "hello"), assistant("a1", "u1", "hi"))
    await interface.hook("Stop")
    await interface.outputs(TurnBegun, 1)
    await interface.hook("UserPromptSubmit")
    await interface.hook("StopFailure", error="invalid_request")
    interface.transcript.add(STOPPED)
    await interface.outputs(TurnEnded, 1)
    interface.transcript.add(user("u2", "a1", "again"), API_ERROR)
    first, second = await interface.outputs(TurnEnded, 2)
    assert (first.reason, second.reason) == (TurnEndReason.END_TURN, TurnEndReason.FAILED)


async def test_a_failure_that_the_transcript_does_not_show_fails_the_turn(interface: Interface) -> None:
    await interface.hook("UserPromptSubmit")
    interface.transcript.add(user("u1", None, "hello"))
    await interface.hook("StopFailure", error="rate_limit")
    (end,) = await interface.outputs(TurnEnded, 1)
    assert (end.reason, end.error) == (TurnEndReason.FAILED, "rate_limit")
