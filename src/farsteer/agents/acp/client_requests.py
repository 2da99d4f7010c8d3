"""What the agent asks us to do: files, terminals, permissions, questions. Every request is answered."""

from __future__ import annotations

import asyncio
import os
import shlex
from collections.abc import Callable, Coroutine
from typing import Any

import msgspec

from farsteer.agents.acp import files, protocol
from farsteer.agents.acp.approvals import PendingApprovals
from farsteer.agents.acp.protocol import Request, encode_error, encode_result
from farsteer.agents.acp.terminals import Terminals, command_argv
from farsteer.agents.turns import TurnOutput
from farsteer.core.errors import ErrorCode
from farsteer.core.modes import ToolKind
from farsteer.core.recent import RecentIds
from farsteer.core.text import clean_line
from farsteer.core.wire import decode
from farsteer.jsonrpc.errors import INTERNAL_ERROR, INVALID_PARAMS, RpcError, unknown_method

_MAX_TOLD = 64
_MAX_RUNNING = 256
"""How many requests may be worked on at a time."""


class ClientRequests:
    """Answers the agent's requests.

    Args:
        roots: The directories of the session; the first one is where the agent works.
        environment: The environment of the agent.
        reading_tools: Tools that change nothing, for an agent that asks before each tool.
        serves_files: Whether the agent was told that it may use our methods for files.
        serves_terminals: The same for terminals.
        write: Sends a line without waiting for it.
        spawn: Runs work in the background.
    """

    def __init__(
        self, output: TurnOutput, approvals: PendingApprovals, terminals: Terminals, roots: tuple[str, ...],
        path: str | None, *, reading_tools: tuple[str, ...], serves_files: bool, serves_terminals: bool,
        write: Callable[[bytes], None], spawn: Callable[[Coroutine[Any, Any, None]], None],
    ) -> None:  # fmt: skip
        self._output = output
        self._approvals = approvals
        self._terminals = terminals
        self._roots = roots
        self._path = path
        self._reading_tools = reading_tools
        self._serves = {"fs": serves_files, "terminal": serves_terminals}
        self._write = write
        self._spawn = spawn
        self._running = 0
        self._told = RecentIds(_MAX_TOLD)
        """Refusals that a person was told of. Some agents repeat a request in every turn."""

    def handle(self, request: Request) -> None:
        """Answer a request, at once or later."""
        try:
            self._handle(request)
        except msgspec.DecodeError as error:
            self._refuse(request, RpcError(INVALID_PARAMS, f"{request.method}: not understood: {error}"))
        except RpcError as error:
            self._refuse(request, error)

    def _handle(self, request: Request) -> None:
        if not self._serves.get(request.method.partition("/")[0], True):
            # Opencode asks although it was told that we do not serve files, and then writes them itself.
            raise unknown_method(request.method[:200])
        match request.method:
            case "session/request_permission":
                params = decode(request.params, protocol.PermissionParams)
                self._approvals.ask_permission(request.id, params)
            case "elicitation/create":
                self._approvals.ask_question(request.id, decode(request.params, protocol.ElicitationParams))
            case "fs/read_text_file":
                self._read(request, decode(request.params, protocol.ReadFileParams))
            case "fs/write_text_file":
                self._write_file(request, decode(request.params, protocol.WriteFileParams))
            case "terminal/create":
                self._create_terminal(request, decode(request.params, protocol.CreateTerminalParams))
            case "terminal/output" | "terminal/wait_for_exit" | "terminal/kill" | "terminal/release":
                self._use_terminal(request, decode(request.params, protocol.TerminalParams).terminal_id)
            case "_x.ai/hooks/run" if self._reading_tools:
                self._decide_hook(request, decode(request.params, protocol.HookParams))
            case method:
                raise unknown_method(method[:200])

    def _decide_hook(self, request: Request, params: protocol.HookParams) -> None:
        """Answer Grok, which asks before each tool whether it may go on to its own permissions."""
        denied = self._approvals.is_read_only and params.tool_name not in self._reading_tools
        decision = (
            {"decision": "deny", "reason": "this session is read-only"} if denied else {"decision": "allow"}
        )
        self._reply(request, decision)

    # -- files

    def _read(self, request: Request, params: protocol.ReadFileParams) -> None:
        files.check_place(params.path, self._roots)

        async def read() -> dict[str, Any]:
            text = await asyncio.to_thread(
                files.read_text, params.path, self._roots, params.line, params.limit
            )
            return {"content": text}

        self._work(request, read)

    def _write_file(self, request: Request, params: protocol.WriteFileParams) -> None:
        files.check_place(params.path, self._roots)

        async def write() -> None:
            await asyncio.to_thread(files.write_text, params.path, self._roots, params.content)

        self._approvals.ask_action(
            request.id, ToolKind.EDIT, f"Write {clean_line(params.path)}",
            {"path": params.path, "content": params.content},
            lambda: self._work(request, write), lambda: self._refuse(request, _not_allowed()),
        )  # fmt: skip

    # -- terminals

    def _create_terminal(self, request: Request, params: protocol.CreateTerminalParams) -> None:
        argv = command_argv(params.command, params.args, self._path)
        directory = os.path.realpath(params.cwd or self._roots[0])
        files.check_place(directory, self._roots)
        added = {one.name: one.value for one in params.env}

        async def create() -> dict[str, Any]:
            created = self._terminals.create(argv, directory, added, params.output_byte_limit)
            return {"terminalId": await created}

        shown = argv[2] if argv[:2] == ["/bin/sh", "-c"] else shlex.join(argv)
        arguments: dict[str, Any] = {"command": shown, "argv": argv, "cwd": directory}
        if added:
            arguments["env"] = added
        self._approvals.ask_action(
            request.id, ToolKind.EXECUTE, shown, arguments, lambda: self._work(request, create),
            lambda: self._refuse(request, _not_allowed()),
        )  # fmt: skip

    def _use_terminal(self, request: Request, terminal_id: str) -> None:
        terminal = self._terminals.find(terminal_id)
        match request.method:
            case "terminal/output":
                result: dict[str, Any] = {"output": terminal.output, "truncated": terminal.truncated}
                status = terminal.exit_status
                self._reply(request, result if status is None else {**result, "exitStatus": status})
            case "terminal/wait_for_exit":
                self._work(request, terminal.wait)
            case "terminal/kill":
                terminal.kill()
                self._reply(request, {})
            case _:
                self._terminals.release(terminal_id)
                self._reply(request, {})

    # -- answers

    def _work(self, request: Request, work: Callable[[], Coroutine[Any, Any, dict[str, Any] | None]]) -> None:
        if self._running >= _MAX_RUNNING:
            self._refuse(request, RpcError(INTERNAL_ERROR, "too many requests at a time"))
            return
        self._running += 1

        async def run() -> None:
            try:
                self._reply(request, await work())
            except RpcError as error:
                self._refuse(request, error)
            finally:
                self._running -= 1

        self._spawn(run())

    def _reply(self, request: Request, result: dict[str, Any] | None) -> None:
        self._write(encode_result(request.id, result))

    def _refuse(self, request: Request, error: RpcError) -> None:
        self._write(encode_error(request.id, error.code, error.message))
        text = f"Refused a request of the agent: {error.message}"
        if text not in self._told:
            self._told.add(text)
            self._output.add_notice(text, ErrorCode.AGENT_PROTOCOL, level="info")


def _not_allowed() -> RpcError:
    return RpcError(INTERNAL_ERROR, "not allowed")
