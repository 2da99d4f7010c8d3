"""`AsyncSession`: a client and the id of one session."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Sequence
from typing import Concatenate, Generic, ParamSpec, TypeVar

from farsteer.client.async_client import AsyncClient
from farsteer.client.turn import AsyncOnApproval, AsyncTurn, TurnResult
from farsteer.core import events as ev
from farsteer.core.api import NewAttachment
from farsteer.core.errors import NotFound

C = TypeVar("C", covariant=True)
P = ParamSpec("P")
T = TypeVar("T")


class SessionHandle(Generic[C]):
    """A client and the id of one session."""

    def __init__(self, client: C, session_id: str) -> None:
        self.client = client
        self.id = session_id

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.id}>"


def for_session(
    method: Callable[Concatenate[C, str, P], T],
) -> Callable[Concatenate[SessionHandle[C], P], T]:
    """Turn a client's method that takes a session id first into a method of a handle, which fills the id in."""

    @functools.wraps(method)
    def call(self: SessionHandle[C], *args: P.args, **kwargs: P.kwargs) -> T:
        return method(self.client, self.id, *args, **kwargs)

    signature = inspect.signature(method)
    first, _, *rest = signature.parameters.values()
    call.__dict__["__signature__"] = signature.replace(parameters=[first, *rest])
    return call


class AsyncSession(SessionHandle[AsyncClient]):
    """One session, for asyncio. Get one from `AsyncClient.start` or `AsyncClient.attach`.

    `turn` and `ask` talk to the agent. The other methods are those of `AsyncClient` without the session id.
    """

    view = for_session(AsyncClient.session)
    send = for_session(AsyncClient.send)
    messages = for_session(AsyncClient.messages)
    history = for_session(AsyncClient.history)
    clear_messages = for_session(AsyncClient.clear_messages)
    events = for_session(AsyncClient.events)
    queue = for_session(AsyncClient.queue)
    cancel = for_session(AsyncClient.cancel)
    approve = for_session(AsyncClient.approve)
    deny = for_session(AsyncClient.deny)
    answer = for_session(AsyncClient.answer)
    typing = for_session(AsyncClient.typing)
    draft = for_session(AsyncClient.draft)
    write_draft = for_session(AsyncClient.write_draft)
    list_files = for_session(AsyncClient.list_files)
    read_file = for_session(AsyncClient.read_file)
    changes = for_session(AsyncClient.changes)
    file_diff = for_session(AsyncClient.file_diff)
    rewind = for_session(AsyncClient.rewind)
    fork = for_session(AsyncClient.fork)
    handoff = for_session(AsyncClient.handoff)
    export = for_session(AsyncClient.export)
    worktree = for_session(AsyncClient.worktree)
    diff = for_session(AsyncClient.diff)
    merge = for_session(AsyncClient.merge)
    rebase = for_session(AsyncClient.rebase)
    name_branch = for_session(AsyncClient.name_branch)
    discard = for_session(AsyncClient.discard)
    send_now = for_session(AsyncClient.send_now)
    set_permission_mode = for_session(AsyncClient.set_permission_mode)
    set_model = for_session(AsyncClient.set_model)
    switch_agent = for_session(AsyncClient.switch_agent)
    rename = for_session(AsyncClient.rename)
    abort = for_session(AsyncClient.abort)
    stop = for_session(AsyncClient.stop)
    resume = for_session(AsyncClient.resume)
    delete = for_session(AsyncClient.delete)

    def turn(
        self,
        text: str,
        *,
        attachments: Sequence[NewAttachment] = (),
        on_approval: AsyncOnApproval | None = None,
        timeout: float | None = None,
    ) -> AsyncTurn:
        """Return an async iterator that sends a message and follows its turn.

            async for update in session.turn("run the tests"):
                print(update.text, end="")

        Args:
            text: The message.
            attachments: Files to send with it.
            on_approval: Called with each approval. Its return value is the answer: True or an `Approve`, False or a
                `Deny`, or None to leave it to somebody else, as without a callback. It may be a coroutine function.
            timeout: Seconds from the beginning to the end of the turn. Then `TimedOut` is raised; the turn goes on.
        """
        return AsyncTurn(
            self.client, self.id, text, attachments=attachments, on_approval=on_approval, timeout=timeout
        )

    async def ask(
        self,
        text: str,
        *,
        attachments: Sequence[NewAttachment] = (),
        on_approval: AsyncOnApproval | None = None,
        timeout: float | None = None,
    ) -> TurnResult:
        """Send a message, wait until its turn has ended and return the result; `str(result)` is the answer.

        Args:
            text: The message.
            attachments: Files to send with it.
            on_approval: As in `turn`. Without it, `ApprovalNeeded` is raised when the agent asks something.
            timeout: Seconds from the beginning to the end of the turn. Then `TimedOut` is raised; the turn goes on.

        Raises:
            ApprovalNeeded: The agent asks something, and `on_approval` is not given. Answer it with `approve` or
                `deny`, then call `wait`.
            AgentError: The agent failed (`agent_failed`) or its process died (`agent_died`).
            Conflict: The turn was cancelled (`turn_cancelled`), or the queue is full (`queue_full`).
            TimedOut: The turn has not ended in time. `wait` goes on waiting, `abort` ends it.
            Unavailable: The runner ended during the turn, or the hub could not be reached for too long.
            NotFound: The session does not exist or was deleted.
        """
        return await _finish(
            AsyncTurn(
                self.client, self.id, text, attachments=attachments, on_approval=on_approval, needs_answers=True,
                timeout=timeout,
            )
        )  # fmt: skip

    async def wait(
        self, item_id: str, *, on_approval: AsyncOnApproval | None = None, timeout: float | None = None
    ) -> TurnResult:
        """Wait until the turn of a message that was sent before has ended, and return its result.

        Args:
            item_id: The `id` that `send` returned, or the `item_id` of an `ApprovalNeeded` or of a `TimedOut`.
            on_approval: As in `ask`.
            timeout: As in `ask`.

        Raises:
            NotFound: The session has no such message.
            FarsteerError: As `ask`.
        """
        return await _finish(
            SentTurn(self.client, self.id, item_id, on_approval=on_approval, timeout=timeout)
        )


async def _finish(turn: AsyncTurn) -> TurnResult:
    async with turn:
        return (await turn.finish()).check()


class SentTurn(AsyncTurn):
    """Follows the turn of a message that was sent before, from its beginning, also if it has ended already."""

    def __init__(
        self,
        client: AsyncClient,
        session_id: str,
        item_id: str,
        *,
        on_approval: AsyncOnApproval | None = None,
        needs_answers: bool = True,
        timeout: float | None = None,
    ) -> None:
        super().__init__(
            client, session_id, "", on_approval=on_approval, needs_answers=needs_answers,
            answered=client.answered, timeout=timeout,
        )  # fmt: skip
        self.item_id = item_id
        self._hub = client

    async def _begin(self) -> None:
        view = await self._hub.session(self.session_id)
        # Asked before the log is read: a message leaves the queue when the log has its turn or its outcome.
        waits = any(item.id == self.item_id for item in view.queue)
        place = await self._place()
        if place is None and not waits:
            raise NotFound(f"the session has no message {self.item_id!r}")
        self._running = view.turn_id
        self._seq = view.seq if place is None else place
        async for entry in self._hub.messages(self.session_id, after=self._seq):
            self._handle_entry(entry)

    async def _place(self) -> int | None:
        """Return a sequence number behind which the turn or the outcome of the message is, or None if there is none."""
        place, is_said = None, False
        async for entry in self._hub.history(self.session_id):
            match entry.content:
                case ev.TurnStart(item_id=self.item_id):
                    return entry.seq - 1
                case ev.TurnStart() if is_said:
                    return entry.seq - 1  # it was steered into this turn
                case ev.UserMessage(item_id=self.item_id):
                    place, is_said = entry.seq - 1, True
                case ev.QueueUpdate(item_id=self.item_id):
                    place = entry.seq - 1
                    if entry.content.item is not None and not is_said:
                        return place  # here it entered the queue
                case _:
                    pass
        return place
