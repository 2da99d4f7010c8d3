"""Codex's own interface in a person's terminal, on the same server that we use.

`codex app-server` listens on a socket. Our client and the interface are both connected to it and see everything that
happens in the thread; whoever answers an approval first wins. So a message from elsewhere appears in the terminal, and
nothing has to be handed over.

The server and the interface outlive a runner that is killed. The next runner ends them, and reads what was said
meanwhile from the thread.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext, suppress
from pathlib import Path

from farsteer.agents.base import Followed, LaunchPlan, Prompt, Sink, Terminal, TerminalCommand
from farsteer.agents.codex.launch import CodexLaunch
from farsteer.agents.codex.socket import ServerSocket, socket_address
from farsteer.agents.process import ProcessExit
from farsteer.core.errors import Conflict
from farsteer.core.events import TerminalUpdate, TurnEndReason
from farsteer.core.lines import Line
from farsteer.core.wire import WireStruct

_TIMEOUT = 15.0


class _Item(WireStruct):
    id: str


class _Entry(WireStruct):
    item: _Item


class _LastItem(WireStruct):
    data: list[_Entry]


class CodexTerminal(CodexLaunch):
    """Args: `terminal` is where the interface runs, `socket` the path that the server listens on."""

    def __init__(
        self, plan: LaunchPlan, sink: Sink, terminal: Terminal, socket: Path,
        on_models: Callable[[tuple[str, ...]], None] | None = None,
    ) -> None:  # fmt: skip
        super().__init__(plan, sink, on_models)
        self._terminal = terminal
        self._socket = socket
        self._server: ServerSocket | None = None
        self._translator.is_shared = True

    @classmethod
    async def start_in_terminal(
        cls, path: str, plan: LaunchPlan, sink: Sink, terminal: Terminal,
        on_models: Callable[[tuple[str, ...]], None] | None = None,
    ) -> CodexTerminal:  # fmt: skip
        """Start a server and Codex's interface as its second client.

        Raises:
            AgentError: The start failed; no process is left.
        """
        socket = Path(plan.state_dir) / f"{plan.session_id}.sock"
        with suppress(FileNotFoundError):
            socket.unlink()
        launch = cls(plan, sink, terminal, socket, on_models)
        await launch._start((path, "app-server", "--listen", f"unix://{socket}"), plan.environment)
        try:
            await launch._open_interface(path)
        except BaseException:
            await launch.stop()
            raise
        return launch

    async def _open_interface(self, path: str) -> None:
        thread = self.native_id
        assert thread is not None
        if not self._translator.is_registered:
            # Codex stores a thread when it gets a name or a message, and opens stored ones only.
            name = self._translator.given_name = os.path.basename(self._plan.directory) or "terminal"
            params = {"threadId": thread, "name": name}
            await self._rpc.call("thread/name/set", params, _TIMEOUT)
            self._translator.open_thread(thread, stored=True)
        self._output.add(Followed(record=await self._last_item(thread)))
        # Before it runs: a runner that is killed now must know from where on the log lacks what is said.
        await self._deliver()
        address = f"unix://{socket_address(self._socket)}"
        argv = (path, "resume", thread, "--remote", address, *self._terminal.arguments)
        command = TerminalCommand(
            argv=argv, environment={**self._plan.environment}, directory=self._plan.directory
        )
        await self._terminal.run(command)
        self._output.add_event(TerminalUpdate(open=True))
        await self._deliver()
        self._background.spawn(self._wait_for_terminal())

    async def _last_item(self, thread: str) -> str:
        """Return the last item of the thread, "" if it has none."""
        params = {"threadId": thread, "sortDirection": "desc", "limit": 1}
        found = await self._rpc.ask("thread/items/list", params, _TIMEOUT, _LastItem)
        return found.data[0].item.id if found.data else ""

    async def _wait_for_terminal(self) -> None:
        await self._terminal.wait()
        self._output.add_event(TerminalUpdate(open=False))
        await self._deliver()

    async def send(self, prompt: Prompt) -> None:
        if self._output.turn_id is None or self._translator.turn_id is None:
            await super().send(prompt)
            return
        # The person at the terminal has begun a turn that the runner did not know of: the message goes into it.
        self._output.end(TurnEndReason.END_TURN)
        self._output.begin(prompt.turn_id)
        try:
            await self.steer(prompt)
        except Conflict:
            # That turn has ended meanwhile.
            self._output.abandon()
            await super().send(prompt)

    async def stop(self, grace: float = 3.0) -> None:
        # The interface would say that its server is gone.
        await self._terminal.end(grace)
        await super().stop(grace)

    # -- the socket

    async def _connect(self) -> None:
        self._server = await ServerSocket.connect(self._socket, lambda: self._process.running)
        self._background.spawn(self._read(self._server))

    async def _read(self, server: ServerSocket) -> None:
        async for message in server.messages():
            await self._handle_lines([message])
        self._process.kill("its connection ended")

    async def _handle_output(self, lines: Sequence[Line]) -> None:
        """What the server writes to stdout is for nobody."""

    def _handing_over(self) -> AbstractContextManager[None]:
        # Nobody knows what the server has read of a socket.
        return nullcontext()

    async def _write(self, line: bytes) -> None:
        assert self._server is not None
        await self._server.send(line)

    async def _handle_exit(self, ended: ProcessExit) -> None:
        if self._server is not None:
            await self._server.close()
        await self._terminal.end(1.0)
        with suppress(FileNotFoundError):
            self._socket.unlink()
        await super()._handle_exit(ended)
