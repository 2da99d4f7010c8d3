"""Rewinding: a conversation goes on from before one of its messages.

The hub has the log, so it finds the place; the runner has the agent, so it cuts there and says so in the log.
"""

from __future__ import annotations

import msgspec

from farsteer.core.api import RewindSession, SessionRewound
from farsteer.core.commands import Rewind
from farsteer.core.errors import AgentError, BadRequest, Conflict, ErrorCode, MachineOffline, NotCapable
from farsteer.core.events import Rewound, UserMessage
from farsteer.hub.auth.caller import Caller, Scope
from farsteer.hub.capable import capabilities
from farsteer.hub.rules.view import SessionRow
from farsteer.hub.services.machines import Machines
from farsteer.hub.store.base import RewindPoint, Store
from farsteer.link.messages import Reply


class Rewinds:
    def __init__(self, store: Store, machines: Machines) -> None:
        self._store = store
        self._machines = machines
        self._running: set[str] = set()

    async def rewind(self, caller: Caller, session_id: str, request: RewindSession) -> SessionRewound:
        """Answered when it is done and stored. A request that is refused has changed nothing."""
        caller.require(Scope.WRITE)
        row = await self._store.get_session(caller.namespace, session_id)
        if not (await capabilities(self._store, row)).rewind:
            raise NotCapable("this agent cannot go back in a conversation")
        if not row.reachable:
            raise MachineOffline
        # Another one would look for its place in a log that is about to be cut.
        if session_id in self._running:
            raise Conflict("this conversation is being rewound already")
        self._running.add(session_id)
        try:
            return await self._rewind(caller, row, request)
        finally:
            self._running.discard(session_id)

    async def _rewind(self, caller: Caller, row: SessionRow, request: RewindSession) -> SessionRewound:
        place = await self._store.find_rewind_point(row.namespace, row.id, request.seq)
        message = _message(place)
        command = Rewind(
            first_seq=place.first_seq,
            cut_at=place.cut_at,
            # Without a name for the place, too much of a memory is better than none.
            keeps=place.cut_at is None and place.answered and row.state.registered,
            files_at=message.item_id if request.restore_files else None,
            by=caller.name,
        )
        reply = await self._machines.call(row.namespace, row.machine_id, row.id, command)
        done = await self._store.find_rewind_result(row.namespace, row.id, place.first_seq, place.last_seq)
        return SessionRewound(
            seq=done.seq,
            first_seq=place.first_seq,
            text=message.text,
            attachments=[attachment.name for attachment in message.attachments],
            files=_event(reply).files,
            cancelled=done.cancelled,
        )


def _message(place: RewindPoint) -> UserMessage:
    message = place.entry.content
    if not isinstance(message, UserMessage):
        kind = type(message).__struct_config__.tag
        raise BadRequest(f"entry {place.entry.seq} is no message of a person, but of kind {kind}")
    return message


def _event(reply: Reply) -> Rewound:
    try:
        return msgspec.convert(reply.result, Rewound)
    except msgspec.ValidationError as error:
        raise AgentError(
            f"the machine's answer cannot be read: {error}", code=ErrorCode.AGENT_PROTOCOL
        ) from None
