"""A turn of the simulator: what the model says, and the tools that it uses."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

from farsteer.core.ids import new_id
from tests.support.claude_simulator.store import Conversation, Json

Ask = Callable[[Json], Awaitable[Json]]
_REJECTED = "The user doesn't want to proceed with this tool use."


class TurnAborted(Exception):
    """A person denied a tool and asked to stop."""


class Session(dict[str, Any]):
    """The settings of the process: mode, model, effort, hook, rules."""


class Turn:
    """Writes what Claude Code writes. `ask` sends a control request and returns the body of its answer."""

    def __init__(
        self, conversation: Conversation, session: Session, write: Callable[[Json], Awaitable[None]], ask: Ask,
        take_steered: Callable[[], Awaitable[None]], write_raw: Callable[[bytes], Awaitable[None]],
    ) -> None:  # fmt: skip
        self.conversation = conversation
        self.session = session
        self.write = write
        self.write_raw = write_raw
        self.ask = ask
        self.is_over = False
        self.ignores_interrupts = False
        self._take_steered = take_steered
        self._parent: str | None = None
        self._partial: tuple[str, str] | None = None
        """The message that is being streamed, and what has been sent of it."""
        self._processes: list[asyncio.subprocess.Process] = []

    # -- what the model says

    async def think(self, text: str) -> None:
        await self._stream(
            {"type": "thinking", "thinking": "", "signature": ""}, "thinking_delta", "thinking", [text]
        )

    async def say(self, text: str, pace: float = 0.0) -> None:
        words = [f"{word} " for word in text.split(" ")] if pace else text.splitlines(keepends=True)
        await self._stream({"type": "text", "text": ""}, "text_delta", "text", words, pace)

    async def _stream(self, block: Json, delta: str, field: str, parts: list[str], pace: float = 0.0) -> None:
        message_id = await self.begin_message(block)
        for part in parts:
            await self.stream_part(message_id, {"type": delta, field: part})
            self._partial = (message_id, self._partial[1] + part if self._partial else part)
            if pace:
                await asyncio.sleep(pace)
        await self.end_message(message_id, {**block, field: "".join(parts)})

    async def begin_message(self, block: Json) -> str:
        message_id = f"msg_{new_id()}"
        usage = {"input_tokens": 100, "output_tokens": 1}
        message = {
            "id": message_id,
            "role": "assistant",
            "model": self.session["model"],
            "content": [],
            "usage": usage,
        }
        await self._event({"type": "message_start", "message": message})
        await self._event({"type": "content_block_start", "index": 0, "content_block": block})
        self._partial = None
        return message_id

    async def stream_part(self, message_id: str, delta: Json) -> None:
        await self._event({"type": "content_block_delta", "index": 0, "delta": delta})

    async def end_message(self, message_id: str, block: Json) -> None:
        await self.assistant(message_id, block)
        self._partial = None
        await self._event({"type": "content_block_stop", "index": 0})
        await self._event(
            {"type": "message_delta", "delta": {"stop_reason": "end_turn"}, "usage": {"output_tokens": 10}}
        )
        await self._event({"type": "message_stop"})
        self._count()

    async def _event(self, event: Json) -> None:
        if self._parent is None:
            await self.write({"type": "stream_event", "event": event, "parent_tool_use_id": None})

    async def assistant(self, message_id: str, block: Json) -> None:
        message = {
            "id": message_id, "role": "assistant", "model": self.session["model"], "content": [block],
            "usage": {"input_tokens": 100, "output_tokens": 1},
        }  # fmt: skip
        # What a sub-agent says is stored in a file of its own.
        uuid = new_id() if self._parent else self.conversation.add("assistant", message)
        await self.write(
            {"type": "assistant", "message": message, "parent_tool_use_id": self._parent, "uuid": uuid}
        )

    async def user(self, content: Any, parent: str | None = None, **more: Any) -> None:
        message, stored = {"role": "user", "content": content}, {}
        if "tool_use_result" in more:
            stored = {"toolUseResult": more["tool_use_result"]}
        uuid = new_id() if parent else self.conversation.add("user", message, **stored)
        await self.write(
            {"type": "user", "message": message, "parent_tool_use_id": parent, "uuid": uuid, **more}
        )

    def _count(self) -> None:
        model = self.session["model"]
        total = self.conversation.totals.setdefault(
            model, {"inputTokens": 0, "outputTokens": 0, "costUSD": 0.0}
        )
        total["inputTokens"] += 100
        total["outputTokens"] += 10
        total["costUSD"] += 0.001

    # -- tools

    async def use_tool(
        self, name: str, given: Json, run: Callable[[Json], Awaitable[tuple[str, Any]]]
    ) -> None:
        """Let the model call a tool; `run` gets its input and returns the result, with details for programs."""
        call, parent = f"toolu_{new_id()}", self._parent
        message_id = await self.begin_message({"type": "tool_use", "id": call, "name": name, "input": {}})
        await self.end_message(message_id, {"type": "tool_use", "id": call, "name": name, "input": given})
        try:
            allowed = await self._permission(call, name, given)
            text, details = await run(allowed)
            result: Json = {"type": "tool_result", "tool_use_id": call, "content": text}
        except PermissionError as error:
            result = {"type": "tool_result", "tool_use_id": call, "content": str(error), "is_error": True}
            details = f"Error: {error}"
        except TurnAborted:
            result = {"type": "tool_result", "tool_use_id": call, "content": _REJECTED, "is_error": True}
            await self.user([result], parent, tool_use_result=f"Error: {_REJECTED}")
            raise
        await self.user([result], parent, tool_use_result=details)
        if parent is None:
            await self._take_steered()

    async def _permission(self, call: str, name: str, given: Json) -> Json:
        """Return the input with which the tool may run. Raises PermissionError or TurnAborted."""
        if (hook := self.session["hook"]) is not None:
            shown = {
                "hook_event_name": "PreToolUse", "tool_name": name, "tool_input": given, "tool_use_id": call,
                "permission_mode": self.session["mode"], "cwd": os.getcwd(),
            }  # fmt: skip
            answer = await self.ask(
                {"subtype": "hook_callback", "callback_id": hook, "input": shown, "tool_use_id": call}
            )
            decision = answer.get("hookSpecificOutput", {})
            if decision.get("permissionDecision") == "deny":
                raise PermissionError(decision["permissionDecisionReason"])
        if not self._asks(name):
            return given
        answer = await self.ask(
            {"subtype": "can_use_tool", "tool_name": name, "input": given, "tool_use_id": call,
             "permission_suggestions": _suggestions(name, given)}
        )  # fmt: skip
        if answer.get("behavior") != "allow":
            if answer.get("interrupt"):
                raise TurnAborted
            raise PermissionError(answer.get("message") or "denied")
        for update in answer.get("updatedPermissions", []):
            if update["type"] == "setMode":
                await self.set_mode(update["mode"])
            elif update["type"] == "addRules":
                self.session["rules"] |= {rule["toolName"] for rule in update["rules"]}
        return answer["updatedInput"]

    def _asks(self, name: str) -> bool:
        if name in ("AskUserQuestion", "ExitPlanMode"):
            return True
        if name == "Task" or name in self.session["rules"]:
            return False
        return not (name == "Write" and self.session["mode"] == "acceptEdits")

    async def set_mode(self, mode: str) -> None:
        self.session["mode"] = mode
        await self.write({"type": "system", "subtype": "status", "status": None, "permissionMode": mode})

    async def write_file(self, name: str, text: str) -> None:
        path = os.path.join(os.getcwd(), name)

        async def run(given: Json) -> tuple[str, Any]:
            self.conversation.track(path)
            before = Path(path).read_text() if os.path.exists(path) else None
            await asyncio.to_thread(Path(path).write_text, given["content"])
            details = {
                "type": "create" if before is None else "update", "filePath": path, "content": given["content"],
                "structuredPatch": [], "originalFile": before,
            }  # fmt: skip
            return f"File created successfully at: {path}", details

        await self.use_tool("Write", {"file_path": path, "content": text}, run)

    async def run_command(self, command: str) -> None:
        async def run(given: Json) -> tuple[str, Any]:
            process = await asyncio.create_subprocess_exec(
                "/bin/sh", "-c", given["command"], stdin=asyncio.subprocess.DEVNULL, stdout=asyncio.subprocess.PIPE,
                stderr=asyncio.subprocess.STDOUT, start_new_session=True,
            )  # fmt: skip
            self._processes.append(process)
            output = (await process.communicate())[0].decode()
            if process.returncode:
                raise PermissionError(f"Exit code {process.returncode}\n{output}")
            return output, {"stdout": output, "stderr": "", "interrupted": False}

        await self.use_tool("Bash", {"command": command, "description": "Runs it"}, run)

    async def run_sub_agents(self, *tasks: Callable[[Turn], Awaitable[None]]) -> None:
        """Run sub-agents at the same time. Each gets a turn of its own, nested in its tool call."""

        async def run_one(task: Callable[[Turn], Awaitable[None]]) -> None:
            nested = Turn(
                self.conversation, self.session, self.write, self.ask, self._take_steered, self.write_raw
            )
            call = f"toolu_{new_id()}"
            given = {"description": "look", "prompt": "look", "subagent_type": "general-purpose"}
            await self.assistant(
                f"msg_{new_id()}", {"type": "tool_use", "id": call, "name": "Task", "input": given}
            )
            nested._parent = call
            try:
                await task(nested)
            finally:
                nested.kill_commands()
            result = {"type": "tool_result", "tool_use_id": call, "content": "The sub-agent is done."}
            await self.user([result], tool_use_result={"status": "completed"})

        async with asyncio.TaskGroup() as group:
            for task in tasks:
                group.create_task(run_one(task))

    def kill_commands(self) -> None:
        for process in self._processes:
            if process.returncode is None:
                os.killpg(process.pid, signal.SIGKILL)

    # -- the end

    async def abort(self, reason: str) -> None:
        """End the turn as interrupted."""
        if self._partial is not None:
            message_id, text = self._partial
            await self.assistant(message_id, {"type": "text", "text": text})
        await self.user([{"type": "text", "text": "[Request interrupted by user]"}])
        await self.end("error_during_execution", is_error=True, terminal_reason=reason)

    async def end(self, subtype: str = "success", *, is_error: bool = False, **more: Any) -> None:
        if not self.is_over:
            self.is_over = True
            await self.result(subtype, is_error=is_error, **more)

    async def result(self, subtype: str = "success", *, is_error: bool = False, **more: Any) -> None:
        usage = {
            model: {
                **total,
                "cacheReadInputTokens": 0,
                "cacheCreationInputTokens": 0,
                "contextWindow": 200000,
            }
            for model, total in self.conversation.totals.items()
        }
        fields: Json = {
            "stop_reason": None if is_error else "end_turn",
            "terminal_reason": "completed",
            **more,
        }
        await self.write(
            {"type": "result", "subtype": subtype, "is_error": is_error, "modelUsage": usage,
             "session_id": self.conversation.id, **fields}
        )  # fmt: skip


def _suggestions(name: str, given: Json) -> list[Json]:
    if name == "Write":
        return [{"type": "setMode", "mode": "acceptEdits", "destination": "session"}]
    if name == "Bash":
        rule = {"toolName": "Bash", "ruleContent": given["command"]}
        return [{"type": "addRules", "rules": [rule], "behavior": "allow", "destination": "localSettings"}]
    return []
