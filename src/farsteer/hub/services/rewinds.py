"""Rewinds: a conversation continues from before one of its messages.

The hub has the log and finds the place in it. The runner has the agent, cuts the conversation there and logs it.
"""

from __future__ import annotations

import msgspec

from farsteer.core.api import RewindSession, SessionRewound
from farsteer.core.commands import Rewind
from farsteer.core.errors import BadRequest, Conflict, MachineOffline, NotCapable
from farsteer.core.events import Rewound, UserMessage, kind_of
from farsteer.hub.auth.caller import Caller, Scope
from farsteer.hub.link.machine_links import MachineLinks
from farsteer.hub.rules.bounds import invalid_answer
from farsteer.hub.rules.view import SessionRow
from farsteer.hub.services.machines import Machines
from farsteer.hub.store.base import RewindPoint, Store
from farsteer.link.messages import Reply


class Rewinds:
    """Rewinds sessions, one rewind of a session at a time.

    A second rewind must not look for its place in a log that is about to be cut, so this process refuses it while the
    first is in progress. Two hubs would not see each other's rewinds: a second hub has to replace `_running` by a lock
    in the store. The runner also refuses a second rewind, but only once the point was looked up.
    """

    def __init__(self, store: Store, machines: Machines, links: MachineLinks) -> None:
        self._store = store
        self._machines = machines
        self._links = links
        self._running: set[str] = set()

    async def rewind(self, caller: Caller, session_id: str, request: RewindSession) -> SessionRewound:
        """Rewind and return once that is stored. A rewind that is refused has changed nothing.

        Raises NotCapable, MachineOffline, Conflict, NotFound for an entry that does not exist or is not visible, and
        BadRequest for one that is not a person's message.
        """
        caller.require(Scope.WRITE)
        row = await self._store.get_session(caller.namespace, session_id)
        if not (await self._machines.capabilities(row)).rewind:
            raise NotCapable("this agent cannot go back in a conversation")
        if not row.reachable:
            raise MachineOffline
        if session_id in self._running:
            raise Conflict("this conversation is being rewound already")
        self._running.add(session_id)
        try:
            return await self._rewind(caller, row, request)
        finally:
            self._running.discard(session_id)

    async def _rewind(self, caller: Caller, row: SessionRow, request: RewindSession) -> SessionRewound:
        point = await self._store.find_rewind_point(row.namespace, row.id, request.seq)
        message = _user_message(point)
        command = Rewind(
            first_seq=point.first_seq,
            cut_at=point.cut_at,
            # Without an anchor the agent cannot cut. It then keeps everything it has answered rather than nothing.
            keeps=point.cut_at is None and point.answered and row.state.registered,
            files_at=message.item_id if request.restore_files else None,
            by=caller.name,
            identity=caller.identity,
        )
        reply = await self._links.call(row.namespace, row.machine_id, row.id, command)
        done = await self._store.find_rewind_result(row.namespace, row.id, point.first_seq, point.last_seq)
        return SessionRewound(
            seq=done.seq,
            first_seq=point.first_seq,
            text=message.text,
            attachments=[attachment.name for attachment in message.attachments],
            files=_rewound_event(reply).files,
            cancelled=done.cancelled,
        )


def _user_message(point: RewindPoint) -> UserMessage:
    message = point.entry.content
    if not isinstance(message, UserMessage):
        kind = kind_of(message)
        raise BadRequest(f"entry {point.entry.seq} is not a person's message, but of kind {kind}")
    return message


def _rewound_event(reply: Reply) -> Rewound:
    try:
        return msgspec.convert(reply.result, Rewound)
    except msgspec.ValidationError as error:
        raise invalid_answer(str(error)) from None
