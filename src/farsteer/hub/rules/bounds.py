"""Bounds what a runner reports besides its logs: the machine, the state of a session, and answers to calls.

Names and messages are cleaned here, once, on their way in. Values that are used again as they are (directories, models,
ids of conversations) are only cut where they are absurdly long.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping

import msgspec
from msgspec.structs import replace

from farsteer.core.capabilities import AgentInfo, AgentModels, MachineInfo
from farsteer.core.errors import AgentError, ErrorCode, ErrorRecord
from farsteer.core.events import SlashCommand
from farsteer.core.foreign import HeldSession
from farsteer.core.ids import is_uuid
from farsteer.core.queue import MAX_QUEUED
from farsteer.core.session import SessionState, StoredConversation, Worktree, bounded
from farsteer.core.text import clean, clean_line
from farsteer.core.wire import encode
from farsteer.link.messages import LogLine, Reply

_NAME = 200
_PATH = 4096
_MESSAGE = 4000
_MODELS = 1000
_AGENTS = 100
_ROOTS = 1000
_LOG_LINES = 200
_COMMANDS = 1000
_COMMANDS_CHARS = 1024 * 1024
_APPROVALS = 1000
_ABANDONED = 1000
_HANDED_OFF = 100
_EXTRA_BYTES = 64 * 1024
"""How large `meta` of a state and `details` of an error may be. Larger ones are dropped."""

_HUB_ERRORS = frozenset(
    {
        ErrorCode.UNAUTHORIZED, ErrorCode.TOKEN_EXPIRED, ErrorCode.FORBIDDEN, ErrorCode.HOST_NOT_ALLOWED,
        ErrorCode.ORIGIN_NOT_ALLOWED, ErrorCode.METHOD_NOT_ALLOWED, ErrorCode.INVALID_JSON, ErrorCode.UNSUPPORTED_MEDIA,
    }
)  # fmt: skip
"""Only the hub itself says these: they are about the client's token or its HTTP request."""
_STATUSES = frozenset({400, 404, 409, 413, 422, 429, 503})


def bounded_machine(machine: MachineInfo) -> MachineInfo:
    agents = [_bounded_agent(agent) for agent in machine.agents[:_AGENTS]]
    return replace(
        machine,
        host=clean_line(machine.host, _NAME),
        platform=clean_line(machine.platform, _NAME),
        version=clean_line(machine.version, _NAME),
        name=_optional_line(machine.name, _NAME),
        agents=tuple(agent for agent in agents if agent.name),
        roots=tuple(root[:_PATH] for root in machine.roots[:_ROOTS]),
    )


def _bounded_agent(agent: AgentInfo) -> AgentInfo:
    return replace(
        agent,
        name=clean_line(agent.name, _NAME),
        title=clean_line(agent.title, _NAME),
        version=_optional_line(agent.version, _NAME),
        reason=_optional_line(agent.reason, _MESSAGE),
        install=_optional_line(agent.install, _MESSAGE),
        login=_optional_line(agent.login, _MESSAGE),
        warning=_optional_line(agent.warning, _MESSAGE),
        models=_bounded_names(agent.models),
    )


def bounded_models(models: AgentModels) -> dict[str, tuple[str, ...]]:
    """Return the models that a machine names for its agents."""
    return {name: _bounded_names(names) for name, names in list(models.items())[:_AGENTS]}


def _bounded_names(models: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(model[:_NAME] for model in models[:_MODELS])


def bounded_sessions(sessions: Mapping[str, int]) -> dict[str, int]:
    """Return the sessions that a machine names, without what cannot be one."""
    return {id: seq for id, seq in sessions.items() if is_uuid(id) and seq >= 0}


def bounded_held(held: Mapping[str, list[str]]) -> dict[str, list[str]]:
    """Return the items that a machine names, without what cannot be one."""
    return {
        session: [id for id in items[:MAX_QUEUED] if len(id) <= _NAME]
        for session, items in held.items()
        if is_uuid(session)
    }


def bounded_state(state: SessionState) -> SessionState:
    """Return the state as it may be stored; the same object if there is nothing to change, as nearly always."""
    return state if _is_bounded(state) else _with_bounds(state)


def _is_bounded(state: SessionState) -> bool:
    """Whether there is nothing to change. Written out, because it is called for every batch of entries."""
    title, error = state.title, state.error
    return (
        (title is None or clean_line(title, _NAME) == title)
        and clean_line(state.agent, _NAME) == state.agent
        and (error is None or (len(error) <= _MESSAGE and error.isprintable()))
        and len(state.directory) <= _PATH
        and len(state.model or "") <= _NAME
        and len(state.native_id or "") <= _PATH
        and len(state.fork_of or "") <= _PATH
        and len(state.cut_at or "") <= _PATH
        and len(state.turn_id or "") <= _NAME
        and len(state.turn_item or "") <= _NAME
        and len(state.last_message or "") <= _NAME
        and len(state.left_behind) <= _ABANDONED
        and len(state.approvals) <= _APPROVALS
        and (not state.commands or _bounded_commands(state.commands) is state.commands)
        and state.worktree is state.meta is None
        and state.handed_off_to == ()
    )


def _with_bounds(state: SessionState) -> SessionState:
    return replace(
        state,
        title=_optional_line(state.title, _NAME),
        agent=clean_line(state.agent, _NAME),
        error=None if state.error is None else clean(state.error[:_MESSAGE]),
        directory=state.directory[:_PATH],
        model=_cut(state.model, _NAME),
        native_id=_cut(state.native_id, _PATH),
        fork_of=_cut(state.fork_of, _PATH),
        cut_at=_cut(state.cut_at, _PATH),
        turn_id=_cut(state.turn_id, _NAME),
        turn_item=_cut(state.turn_item, _NAME),
        last_message=_cut(state.last_message, _NAME),
        left_behind=state.left_behind[:_ABANDONED],
        approvals=state.approvals[:_APPROVALS],
        commands=_bounded_commands(state.commands),
        worktree=None if state.worktree is None else _bounded_worktree(state.worktree),
        handed_off_to=tuple(id for id in state.handed_off_to if is_uuid(id))[:_HANDED_OFF],
        meta=None if state.meta is None or _is_large(state.meta) else state.meta,
    )


def _bounded_commands(commands: tuple[SlashCommand, ...]) -> tuple[SlashCommand, ...]:
    chars = sum([len(command.name) + len(command.description) for command in commands])
    if len(commands) <= _COMMANDS and chars <= _COMMANDS_CHARS:
        return commands
    return tuple(
        SlashCommand(name=command.name[:_NAME], description=command.description[:_NAME])
        for command in commands[:_COMMANDS]
    )


def _bounded_worktree(worktree: Worktree) -> Worktree:
    return Worktree(
        base=worktree.base[:_PATH], path=worktree.path[:_PATH], branch=clean_line(worktree.branch, _PATH),
        name=clean_line(worktree.name, _NAME), base_branch=_optional_line(worktree.base_branch, _PATH),
        base_commit=_optional_line(worktree.base_commit, _NAME),
    )  # fmt: skip


def bounded_reply(reply: Reply, session_id: str) -> Reply:
    """Return an answer to a call as services may use it. An error that makes no sense becomes `agent_protocol`."""
    error, state = reply.error, reply.state
    if state is not None and (state.id != session_id or state.seq < 0):
        error, state = invalid_answer("its state is of another session").record(), None
    if error is reply.error is None and state is None and not reply.logs:
        return reply
    return replace(
        reply,
        error=None if error is None else _bounded_error(error),
        state=None if state is None else bounded_state(state),
        logs=[_bounded_line(line) for line in reply.logs[:_LOG_LINES]],
    )


def _bounded_error(error: ErrorRecord) -> ErrorRecord:
    message = clean(error.message[:_MESSAGE]).strip() or "the machine gave no reason"
    # A record without a status has 500, which says that something is wrong inside: only `internal` may.
    is_internal = error.status == 500 and error.code is ErrorCode.INTERNAL
    if error.code in _HUB_ERRORS or (error.status not in _STATUSES and not is_internal):
        return AgentError(message, code=ErrorCode.AGENT_PROTOCOL).record()
    details = error.details
    return replace(error, message=message, details=None if details is None or _is_large(details) else details)


def _bounded_line(line: LogLine) -> LogLine:
    return LogLine(
        timestamp=line.timestamp,
        step=clean_line(line.step, _NAME),
        message=clean_line(line.message, _MESSAGE),
        status="error" if line.status == "error" else "ok",
        code=_optional_line(line.code, _NAME),
    )


def bounded_conversations(result: object, limit: int) -> list[StoredConversation]:
    """Return the conversations that a machine listed. Raises AgentError if the answer is something else."""
    try:
        found = msgspec.convert(result, list[StoredConversation])
    except msgspec.ValidationError as error:
        raise invalid_answer(str(error)) from None
    return [
        replace(
            one,
            title=_optional_line(one.title, _NAME),
            agent=clean_line(one.agent, _NAME),
            session_id=one.session_id if one.session_id is not None and is_uuid(one.session_id) else None,
        )
        for one in found[:limit]
        if len(one.native_id) <= _PATH and len(one.directory) <= _PATH
    ]


def bounded_held_sessions(result: object, machine_id: str, asked: Collection[str]) -> list[HeldSession]:
    """Return the sessions that a machine described, of those it was asked for. Raises AgentError as above."""
    try:
        found = msgspec.convert(result, list[HeldSession])
    except msgspec.ValidationError as error:
        raise invalid_answer(str(error)) from None
    sessions = {held.state.id: held for held in found if held.state.id in asked}
    return [_bounded_held(held, machine_id) for held in sessions.values()]


def _bounded_held(held: HeldSession, machine_id: str) -> HeldSession:
    spec = replace(
        held.spec.without_secrets,
        id=held.state.id,
        machine_id=machine_id,
        agent=_optional_line(held.spec.agent, _NAME),
        title=_optional_line(held.spec.title, _NAME),
        source=clean_line(held.spec.source, _NAME),
        directory=held.spec.directory[:_PATH],
    )
    if _is_large(spec):
        raise invalid_answer(f"session {spec.id} is too large")
    if not 0 <= held.confirmed <= held.state.seq < 2**53:
        raise invalid_answer(f"the numbers of session {spec.id} make no sense")
    return replace(held, spec=spec, state=bounded_state(bounded(held.state)))


def invalid_answer(reason: str) -> AgentError:
    """Return the error for an answer of a machine that is not what was asked for."""
    return AgentError(
        f"the machine's answer is not valid: {clean_line(reason)}", code=ErrorCode.AGENT_PROTOCOL
    )


def _cut(text: str | None, limit: int) -> str | None:
    return None if text is None else text[:limit]


def _optional_line(text: str | None, limit: int) -> str | None:
    return None if text is None else clean_line(text, limit) or None


def _is_large(value: object) -> bool:
    return len(encode(value)) > _EXTRA_BYTES
