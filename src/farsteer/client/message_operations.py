"""The operations of a client inside a session: messages, the queue and approvals."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping, Sequence

import msgspec

from farsteer.client.connection import api_path
from farsteer.client.session_operations import PAGE_SIZE, SessionOperations
from farsteer.core import api
from farsteer.core.events import Entry, decode_entry
from farsteer.core.ids import new_id
from farsteer.core.lines import LineSplitter
from farsteer.core.modes import PermissionMode
from farsteer.core.queue import Delivery, QueueItem
from farsteer.core.recent import RecentIds


class _MessagesPage(msgspec.Struct):
    messages: list[msgspec.Raw]
    page: api.Page


class MessageOperations(SessionOperations):
    """A base class of `AsyncClient`."""

    answered: RecentIds
    """Ids of the approvals that this client has answered of late. The log has an answer a moment later."""

    async def send(
        self,
        session_id: str,
        text: str,
        *,
        attachments: Sequence[api.NewAttachment] = (),
        local_id: str | None = None,
        delivery: Delivery | str = Delivery.QUEUE,
        timeout: float | None = None,
    ) -> api.MessageAccepted:
        """Put a message into the session's queue and return without waiting for the agent.

        The hub has stored the message when this returns. `wait` of a session waits for its answer; `ask` does both.

        Args:
            session_id: The session.
            text: The message.
            attachments: Files to send with it.
            local_id: An id of your own. A second message with the same one is not sent again.
            delivery: `queue` waits for its turn, `now` interrupts the running turn and goes first, and `steer` is
                added to the running turn if the agent supports that.

        Raises:
            NotFound: There is no session with this id.
            Conflict: The queue is full (`queue_full`).
            NotCapable: The agent does not support `steer`.
        """
        body = api.SendMessage(
            text=text,
            local_id=local_id or new_id(),
            attachments=list(attachments),
            delivery=Delivery(delivery),
        )
        path = api_path("sessions", session_id, "messages")
        return await self._connection.call(
            "POST", path, api.MessageAccepted, body=body, repeatable=True, timeout=timeout
        )

    async def messages(
        self, session_id: str, *, after: int = 0, timeout: float | None = None
    ) -> AsyncIterator[Entry]:
        """Iterate over the session's log, oldest entry first. Pages are fetched as needed.

        Args:
            session_id: The session.
            after: Begin behind the entry with this sequence number.
            timeout: Seconds that each page may take.
        """
        position: int | None = after
        while position is not None:
            page = await self._page(session_id, {"afterSeq": position, "limit": PAGE_SIZE}, timeout=timeout)
            for raw in page.messages:
                yield decode_entry(bytes(raw))
            position = page.page.next_after_seq if page.page.has_more else None

    async def log(self, session_id: str, *, timeout: float | None = None) -> AsyncIterator[Entry]:
        """Iterate over the whole log as it is now, oldest entry first.

        The log comes in one response, which is much faster than `messages` for a long one.
        """
        splitter, first_line = LineSplitter(), True
        async for chunk in self.export(session_id, timeout=timeout):
            for line in splitter.feed(chunk):
                # The first line of an export is the session.
                if not first_line and isinstance(line, bytes):
                    yield decode_entry(line)
                first_line = False

    async def history(
        self, session_id: str, *, before: int | None = None, timeout: float | None = None
    ) -> AsyncIterator[Entry]:
        """Iterate over the session's log backwards, newest entry first. Pages are fetched as needed.

        Args:
            session_id: The session.
            before: Begin before the entry with this sequence number. Defaults to the end of the log.
            timeout: Seconds that each page may take.
        """
        while True:
            page = await self._page(session_id, {"beforeSeq": before, "limit": PAGE_SIZE}, timeout=timeout)
            for raw in reversed(page.messages):
                yield decode_entry(bytes(raw))
            before = page.page.next_before_seq
            if before is None or not page.page.has_more:
                return

    async def _page(
        self, session_id: str, query: Mapping[str, int | None], *, timeout: float | None = None
    ) -> _MessagesPage:
        path = api_path("sessions", session_id, "messages")
        return await self._connection.call("GET", path, _MessagesPage, query=query, timeout=timeout)

    async def clear_messages(
        self, session_id: str, *, keep: int = 0, timeout: float | None = None
    ) -> api.MessagesCleared:
        """Hide the history except the newest `keep` messages. The agent still remembers everything."""
        path = api_path("sessions", session_id, "messages")
        body = api.ClearMessages(keep_count=keep)
        return await self._connection.call("DELETE", path, api.MessagesCleared, body=body, timeout=timeout)

    async def queue(self, session_id: str, *, timeout: float | None = None) -> list[QueueItem]:
        """Return the messages that wait for their turn, the next one first."""
        path = api_path("sessions", session_id, "queue")
        return (await self._connection.call("GET", path, api.QueueResponse, timeout=timeout)).items

    async def cancel(self, session_id: str, item_id: str, *, timeout: float | None = None) -> None:
        """Remove a waiting message from the queue.

        Raises:
            NotFound: There is no such message.
            Conflict: The agent already has it.
        """
        await self._connection.call(
            "DELETE", api_path("sessions", session_id, "queue", item_id), api.Done, timeout=timeout
        )

    async def send_now(self, session_id: str, item_id: str, *, timeout: float | None = None) -> None:
        """Interrupt the running turn and send a waiting message next.

        Raises:
            NotFound: There is no such message.
            Conflict: The agent already has it.
        """
        path = api_path("sessions", session_id, "queue", item_id, "send-now")
        await self._connection.call("POST", path, api.Done, timeout=timeout)

    async def typing(
        self, session_id: str, text: str, *, client_id: str | None = None, timeout: float | None = None
    ) -> None:
        """Show other clients what is being typed.

        Args:
            session_id: The session.
            text: The text so far.
            client_id: Passed on to the other clients, so that this client recognizes its own text.
        """
        path = api_path("sessions", session_id, "typing")
        await self._connection.call(
            "POST", path, api.Done, body=api.Typing(text=text, client_id=client_id), timeout=timeout
        )

    async def draft(self, session_id: str, *, timeout: float | None = None) -> api.DraftView:
        """Return what somebody has begun to write to a session. Its `text` is empty if there is no draft."""
        path = api_path("sessions", session_id, "draft")
        return (await self._connection.call("GET", path, api.DraftResponse, timeout=timeout)).draft

    async def write_draft(
        self, session_id: str, text: str, *, version: int | None = None, timeout: float | None = None
    ) -> api.DraftView:
        """Replace the draft of a session, for all devices. A message with the same text removes it.

        Args:
            session_id: The session.
            text: The new draft. Empty removes it.
            version: The version that was read last. None replaces whatever is there.

        Raises:
            Conflict: Somebody has changed it since `version` (`draft_outdated`); `details["version"]` is the
                present one.
        """
        path = api_path("sessions", session_id, "draft")
        body = api.WriteDraft(text=text, version=version)
        return (await self._connection.call("PUT", path, api.DraftResponse, body=body, timeout=timeout)).draft

    async def approvals(self, *, timeout: float | None = None) -> list[api.ApprovalView]:
        """Return all open approvals of all sessions: what agents wait for a person to answer."""
        return (
            await self._connection.call("GET", api_path("approvals"), api.ApprovalsResponse, timeout=timeout)
        ).approvals

    async def approve(
        self,
        session_id: str,
        approval_id: str,
        *,
        always: bool = False,
        answers: Mapping[str, Sequence[str]] | None = None,
        mode: PermissionMode | str | None = None,
        allow_tools: Sequence[str] = (),
        option_id: str | None = None,
        message: str | None = None,
        timeout: float | None = None,
    ) -> api.ApprovalAnswered:
        """Approve a permission or a plan, or answer questions.

        Args:
            session_id: The session.
            approval_id: The approval.
            always: Approve the same for the rest of the session.
            answers: The chosen or written answers by the id of the question.
            mode: The permission mode to continue in.
            allow_tools: Tools to allow for the rest of the session.
            option_id: The option to choose, if the agent offers its own.
            message: A message to the agent.

        Raises:
            AlreadyAnswered: Somebody else has answered; the details say who and how.
            BadRequest: The answers do not fit the questions.
            NotFound: There is no such approval.
        """
        return await self.answer(
            session_id,
            approval_id,
            api.Approve(
                decision="approved_for_session" if always else "approved",
                answers=None if answers is None else {key: list(chosen) for key, chosen in answers.items()},
                mode=None if mode is None else PermissionMode(mode),
                allow_tools=list(allow_tools),
                option_id=option_id,
                message=message,
            ),
            timeout=timeout,
        )

    async def deny(
        self,
        session_id: str,
        approval_id: str,
        *,
        abort: bool = False,
        message: str | None = None,
        option_id: str | None = None,
        timeout: float | None = None,
    ) -> api.ApprovalAnswered:
        """Deny a permission or a plan, or decline to answer questions.

        Args:
            session_id: The session.
            approval_id: The approval.
            abort: Also end the turn.
            message: The reason, for the agent.
            option_id: The option to choose, if the agent offers its own.

        Raises:
            AlreadyAnswered: Somebody else has answered; the details say who and how.
            NotFound: There is no such approval.
        """
        decision = "abort" if abort else "denied"
        return await self.answer(
            session_id,
            approval_id,
            api.Deny(decision=decision, message=message, option_id=option_id),
            timeout=timeout,
        )

    async def answer(
        self,
        session_id: str,
        approval_id: str,
        decision: api.Approve | api.Deny | bool,
        *,
        timeout: float | None = None,
    ) -> api.ApprovalAnswered:
        """Answer an approval; `approve` and `deny` do the same with fewer words.

        Raises:
            AlreadyAnswered: Somebody else has answered; the details say who and how.
            NotFound: There is no such approval.
        """
        if isinstance(decision, bool):
            decision = api.Approve() if decision else api.Deny()
        verb = "approve" if isinstance(decision, api.Approve) else "deny"
        path = api_path("sessions", session_id, "permissions", approval_id, verb)
        answered = await self._connection.call(
            "POST", path, api.ApprovalAnswered, body=decision, timeout=timeout
        )
        self.answered.add(approval_id)
        return answered
