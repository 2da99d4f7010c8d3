"""One turn of the simulator: what it says, which tools it uses, whom it asks, and how it ends."""

from __future__ import annotations

import asyncio
import os
import re
import signal
from collections.abc import Awaitable, Callable
from typing import Any

import msgspec

from farsteer.core.ids import new_id
from farsteer.faces.droid import notes, params
from farsteer.faces.droid.modes import LEVELS
from farsteer.faces.droid.notes import EXECUTING, IDLE, STREAMING, THINKING, WAITING, Text, ToolUse
from farsteer.faces.droid.tools import confirmation
from farsteer.faces.droid.wire import ASK_USER, REQUEST_PERMISSION, Answer
from tests.support.droid_simulator import store
from tests.support.droid_simulator.voice import Voice, now

CANCELLED = "Error: Tool execution cancelled by user"
_READS = re.compile(r"\s*(?:ls|pwd|env|cat|echo)\b[^>]*")

Act = Callable[[ToolUse], Awaitable[tuple[str, bool]]]
"""Does what the tool is for: its result, and whether it failed."""


class Over(Exception):
    """The turn ends here, without another call of the model."""


class Turn:
    def __init__(self, voice: Voice, text: str, request: str, name: str | None = None) -> None:
        self.voice = voice
        self.text = text
        self.request = request
        self._name = name
        self.reason = "completed"
        self.deaf = False
        self.final = False
        """No command follows the one that is being done."""
        self.silent_end = False
        """Its end was told already."""
        self.id = ""
        """Of the message that began it."""
        self._used = voice.here.settings.used
        self._calls = 0
        self._message: str | None = None
        self._said = ""
        self._use: ToolUse | None = None
        self._process: asyncio.subprocess.Process | None = None
        self.waiting: dict[str, asyncio.Future[Answer]] = {}
        """What it has asked, until the answer."""
        self.pending: dict[str, dict[str, Any]] = {}

    async def run(self, perform: Callable[[Turn], Awaitable[None]]) -> None:
        voice = self.voice
        await voice.state(STREAMING)
        self.id = await voice.heard(self.text, self.request, self._name)
        try:
            await voice.state(THINKING)
            await voice.called()
            await perform(self)
        except Over:
            pass
        except asyncio.CancelledError:
            self.reason = "cancelled"
            await self._interrupted()
        await self._end()

    async def _end(self) -> None:
        if self.silent_end:
            return
        await self.voice.completed(self.reason, self.id, self._used)
        await self.voice.state(IDLE)
        await self.voice.usage_after_idle()

    async def end_now(self, reason: str = "completed") -> None:
        """Say that it is over, whatever follows."""
        self.reason = reason
        await self._end()
        self.silent_end = True

    # -- saying

    async def say(self, text: str, *, pace: float = 0.0, thought: str = "", last: bool = False) -> None:
        """A message, streamed and then whole. `last`: the command says no more."""
        voice, message_id = self.voice, new_id()
        blocks: list[Text | notes.Thinking | notes.ToolUse | notes.ToolOutcome] = []
        if thought:
            await voice.state(THINKING)
            for word in _words(thought):
                await voice.delta(message_id, 0, word, thought=True)
            await voice.complete(message_id, 0, thought=True)
            blocks.append(notes.Thinking(thinking=thought))
        await voice.state(STREAMING)
        self._message, self._said = message_id, ""
        for word in _words(text):
            await voice.delta(message_id, len(blocks), word)
            self._said += word
            if pace:
                await asyncio.sleep(pace)
        await voice.complete(message_id, len(blocks))
        if last and self.final and "completed-early" in voice.bad:
            await self.end_now()
        elif last and self.final and (voice.profile.idle_early or "premature-idle" in voice.bad):
            await voice.state(IDLE)
        self._message = None
        await voice.told(voice.message("assistant", *blocks, Text(text=text), id=message_id))

    # -- using tools

    def new_use(self, name: str, given: dict[str, Any]) -> ToolUse:
        self._calls += 1
        return ToolUse(id=f"call_{len(self.voice.here.messages)}_{self._calls}", name=name, input=given)

    async def use(self, name: str, given: dict[str, Any], act: Act) -> bool:
        """Announce it, ask where the session's autonomy says so, do it, tell the result."""
        use = self.new_use(name, given)
        await self.announce(use)
        session = self.voice.here.settings
        if session.spec and name in ("Create", "Edit"):
            await self.conclude(use, "Error: Error: Tool cancelled: Spec mode is active", failed=True)
            return False
        if not _allowed(name, given, session.level):
            selected = (await self.permit(use))[0]
            if selected == "proceed_always":
                kind, details = confirmation(use)
                session.level = str(details["impactLevel"]) if kind in ("exec", "mcp_tool") else "low"
                store.save(self.voice.here)
                await self.voice.settings()
        await self.voice.phase(use, "executing")
        text, failed = await act(use)
        await self.conclude(use, text, failed=failed)
        return not failed

    async def announce(self, use: ToolUse) -> None:
        voice = self.voice
        await voice.state(STREAMING)
        for number in range(voice.profile.hints):
            shown = use if number else ToolUse(id=use.id, name=use.name)
            await voice.note(notes.ToolCall(tool_use=shown))
        await voice.told(voice.message("assistant", use))
        await voice.state(EXECUTING)
        await voice.phase(use, "queued")
        self._use = use

    async def conclude(self, use: ToolUse, text: str, *, failed: bool) -> None:
        self._use = None
        await self.voice.result(use, text, failed=failed)
        await self.voice.called()
        await self.voice.state(STREAMING)

    async def permit(
        self, use: ToolUse, kind: str | None = None, details: dict[str, Any] | None = None,
        options: list[dict[str, str]] | None = None,
    ) -> tuple[str, params.Selected | None]:  # fmt: skip
        """What a person says to it. A no ends the turn."""
        known, shown = confirmation(use)
        asked = {"toolUse": use, "confirmationType": kind or known, "details": details or shown}
        offered = options or _OPTIONS
        answer, request = await self.ask(REQUEST_PERMISSION, {"toolUses": [asked], "options": offered})
        selected = _selected(answer)
        word = selected.selected_option if selected is not None else "cancel"
        after = EXECUTING if self.voice.profile.completes else STREAMING
        await self.voice.state(after)
        calls = [] if word == "cancel" else [use.id]
        await self.voice.note(
            notes.PermissionResolved(request_id=request, tool_use_ids=calls, selected_option=word)
        )
        for _ in range(self.voice.profile.late_hints):
            await self.voice.note(notes.ToolCall(tool_use=use))
        if word == "cancel" and kind is None:
            self._use = None
            await self.voice.result(use, CANCELLED, failed=True)
            raise Over
        return word, selected

    async def ask(self, method: str, asked: dict[str, Any]) -> tuple[Answer, str]:
        request = new_id()
        answer = self.waiting[request] = asyncio.get_running_loop().create_future()
        self.pending[request] = {"requestId": request, **asked}
        await self.voice.state(WAITING)
        await self.voice.write(self.voice.writing.request(request, method, asked))
        answered = await answer
        del self.waiting[request], self.pending[request]
        return answered, request

    async def question(self, *questions: dict[str, Any]) -> str:
        """The result of a questionnaire."""
        use = self.new_use("AskUser", {"questionnaire": "\n".join(one["question"] for one in questions)})
        await self.announce(use)
        asked = {"toolCallId": use.id, "questions": [*questions]}
        answer, _ = await self.ask(ASK_USER, asked)
        while (replied := _replied(answer)) is None and self.voice.profile.waits_for_answers:
            answer, _ = await self.ask(ASK_USER, asked)
        await self.voice.state(STREAMING)
        if replied is not None and replied.cancelled:
            self._use = None
            await self.voice.result(use, CANCELLED, failed=True)
            raise Over
        if replied is None or len(replied.answers) < len(questions):
            await self.conclude(use, "Error: AskUser failed", failed=True)
            return ""
        text = "\n\n".join(
            f"{one.index}. [question] {one.question}\n[answer] {one.answer}" for one in replied.answers
        )
        await self.conclude(use, text, failed=False)
        return ", ".join(one.answer for one in replied.answers)

    async def shell(self, use: ToolUse) -> tuple[str, bool]:
        starting = asyncio.ensure_future(
            asyncio.create_subprocess_shell(
                use.input["command"], cwd=self.voice.here.directory, stdin=asyncio.subprocess.DEVNULL,
                stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.STDOUT, process_group=0,
            )
        )  # fmt: skip
        try:
            process = await asyncio.shield(starting)
        except asyncio.CancelledError:
            self._process = await starting  # so that there is something to kill
            raise
        assert process.stdout is not None
        self._process, output = process, ""
        while chunk := await process.stdout.read(65536):
            output += chunk.decode(errors="replace")
            update = {"type": "status", "text": "", "timestamp": now(), "fullOutput": output}
            await self.voice.note(notes.Progress(tool_use_id=use.id, tool_name=use.name, update=update))
        code = await process.wait()
        self._process = None
        end = f"\n\n[Process exited with code {code}]"
        if code:
            return f"Error: Command failed (exit code: {code})\n{output}{end}", True
        return f"{output.rstrip() or 'Command completed successfully'}{end}", False

    def kill(self) -> None:
        """End the command that runs."""
        if self._process is not None and self._process.returncode is None:
            os.killpg(self._process.pid, signal.SIGKILL)

    async def _interrupted(self) -> None:
        """What was said of it stays in the history; a tool that ran has two results."""
        voice = self.voice
        self.kill()
        for request in self.waiting:
            await voice.note(
                notes.PermissionResolved(request_id=request, tool_use_ids=[], selected_option="cancel")
            )
        if self._use is not None:
            await voice.result(self._use, CANCELLED, failed=True)
            await voice.result(
                self._use, "Error: Tool execution cancelled: Batch cancelled", failed=True, again=True
            )
        elif self._message is not None:
            store.add(voice.here, voice.message("assistant", Text(text=self._said), id=self._message))
        for text in ("Request cancelled by user", "Request interrupted by user"):
            await voice.told(voice.message("system", Text(text=text), visibility="llm_only"))


_OPTIONS = [
    {"label": "Yes, allow", "value": "proceed_once"},
    {"label": "Yes, and always allow medium impact commands", "value": "proceed_always"},
    {"label": "No, cancel", "value": "cancel"},
]


def _allowed(name: str, given: dict[str, Any], level: str) -> bool:
    rank = LEVELS.index(level)
    if name != "Execute":
        return rank >= LEVELS.index("low")
    return given["riskLevel"] == "low" or rank >= LEVELS.index(given["riskLevel"])


def risk(command: str) -> str:
    if re.search(r"\brm\b|\bgit push\b", command):
        return "high"
    return "low" if _READS.fullmatch(command) else "medium"


def _words(text: str) -> list[str]:
    return re.findall(r"\S+\s*|\s+", text)


def _selected(answer: Answer) -> params.Selected | None:
    try:
        return None if answer.error is not None else msgspec.json.decode(answer.result, type=params.Selected)
    except msgspec.DecodeError:
        return None


def _replied(answer: Answer) -> params.Replied | None:
    try:
        return None if answer.error is not None else msgspec.json.decode(answer.result, type=params.Replied)
    except msgspec.DecodeError:
        return None
