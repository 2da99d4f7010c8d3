"""The adapter for Anthropic's Claude Code."""

from __future__ import annotations

import asyncio

from farsteer.agents.base import Adapter, Launch, LaunchPlan, Sink, Takeover, Terminal
from farsteer.agents.claude import arguments, cli, follower, transcripts
from farsteer.agents.claude.launch import ClaudeLaunch, Command
from farsteer.core.capabilities import AgentInfo, Capabilities
from farsteer.core.errors import AgentError, ErrorCode
from farsteer.core.events import SessionEvent
from farsteer.core.ids import check_id
from farsteer.core.session import StoredConversation

_NOT_FOUND = "no claude on PATH"


class ClaudeAdapter(Adapter):
    name = "claude"
    title = "Claude Code"
    environment_names = cli.ENVIRONMENT_NAMES
    capabilities: Capabilities = cli.CAPABILITIES
    signs_as_anthropic = True
    """Whether its thoughts are signed by Anthropic, which accepts no others in a conversation."""

    def __init__(self, executable: str | None = None) -> None:
        self._executable = executable

    async def detect(self) -> AgentInfo:
        path = cli.PROGRAM.find(self._executable)
        version = await cli.PROGRAM.find_version(path) if path is not None else None
        reason = _NOT_FOUND if path is None else f"{path} does not report its version"
        return AgentInfo(
            name=self.name, title=self.title, available=version is not None, version=version,
            reason=None if version is not None else reason, install=cli.INSTALL_COMMAND,
            login=await self._login_hint() if version is not None else None,
            warning=cli.PROGRAM.version_warning(version), models=self.models, capabilities=self.capabilities,
        )  # fmt: skip

    async def start(self, plan: LaunchPlan, sink: Sink) -> Launch:
        self.check_plan(plan)
        path = self._find_executable()
        command = Command((path, *arguments.arguments(plan)), arguments.environment(plan))
        return await ClaudeLaunch.start(command, plan, sink, self.set_models)

    async def start_in_terminal(self, plan: LaunchPlan, sink: Sink, terminal: Terminal) -> Launch:
        from farsteer.agents.claude.terminal import ClaudeTerminal

        self.check_plan(plan)
        return await ClaudeTerminal.start(self._find_executable(), plan, sink, terminal)

    def _find_executable(self) -> str:
        path = cli.PROGRAM.find(self._executable)
        if path is None:
            raise AgentError(_NOT_FOUND, code=ErrorCode.AGENT_NOT_INSTALLED, install=cli.INSTALL_COMMAND)
        return path

    async def _login_hint(self) -> str | None:
        """Return how to log in, or None if that is done."""
        return None if await asyncio.to_thread(cli.is_logged_in) else cli.LOGIN_COMMAND

    def takeover(self, other: Adapter) -> Takeover:
        if not isinstance(other, ClaudeAdapter):
            return Takeover.REFUSED
        same = self.signs_as_anthropic is other.signs_as_anthropic
        return Takeover.RESUMED if same else Takeover.ANEW

    def has_transcript(self, native_id: str, state_dir: str) -> bool:
        return transcripts.has_messages(cli.config_dir(), native_id)

    async def list_conversations(
        self, state_dir: str, directory: str | None, limit: int
    ) -> list[StoredConversation]:
        return await asyncio.to_thread(
            transcripts.list_conversations, cli.config_dir(), directory, limit, self.name
        )

    async def read_history(
        self, native_id: str, state_dir: str
    ) -> tuple[StoredConversation, list[SessionEvent]]:
        check_id(native_id, "the id of a conversation")
        return await asyncio.to_thread(transcripts.read_conversation, cli.config_dir(), native_id, self.name)

    async def read_records_after(self, native_id: str, record: str, directory: str) -> list[SessionEvent]:
        return await asyncio.to_thread(follower.events_after, cli.config_dir(), native_id, record, directory)

    async def delete_conversation(self, native_id: str, state_dir: str) -> None:
        check_id(native_id, "the id of a conversation")
        await asyncio.to_thread(transcripts.delete_conversation, cli.config_dir(), native_id)
