"""`AsyncSession`: a client and the id of one session."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Sequence
from typing import Concatenate, Generic, ParamSpec, TypeVar

from farsteer.client.async_client import AsyncClient
from farsteer.client.turn import OnApproval, Turn, TurnResult
from farsteer.core.api import NewAttachment

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
    rewind = for_session(AsyncClient.rewind)
    fork = for_session(AsyncClient.fork)
    export = for_session(AsyncClient.export)
    send_now = for_session(AsyncClient.send_now)
    set_permission_mode = for_session(AsyncClient.set_permission_mode)
    set_model = for_session(AsyncClient.set_model)
    rename = for_session(AsyncClient.rename)
    abort = for_session(AsyncClient.abort)
    stop = for_session(AsyncClient.stop)
    resume = for_session(AsyncClient.resume)
    delete = for_session(AsyncClient.delete)

    def turn(
        self, text: str, *, attachments: Sequence[NewAttachment] = (), on_approval: OnApproval | None = None
    ) -> Turn:
        """Return an async iterator that sends a message and follows its turn.

            async for update in session.turn("run the tests"):
                print(update.text, end="")

        Args:
            text: The message.
            attachments: Files to send with it.
            on_approval: Called with each approval. Its return value is the answer: True or an `Approve`, False or a
                `Deny`, or None to leave it to somebody else, as without a callback. It may be a coroutine function.
        """
        return Turn(self.client, self.id, text, attachments=attachments, on_approval=on_approval)

    async def ask(
        self, text: str, *, attachments: Sequence[NewAttachment] = (), on_approval: OnApproval | None = None
    ) -> TurnResult:
        """Send a message, wait until its turn has ended and return the result; `str(result)` is the answer.

        Args:
            text: The message.
            attachments: Files to send with it.
            on_approval: As in `turn`.

        Raises:
            AgentError: The agent failed (`agent_failed`) or its process died (`agent_died`).
            Conflict: The turn was cancelled (`turn_cancelled`), or the queue is full (`queue_full`).
            Unavailable: The runner ended during the turn, or the hub could not be reached for too long.
            NotFound: The session does not exist or was deleted.
        """
        async with self.turn(text, attachments=attachments, on_approval=on_approval) as turn:
            return (await turn.finish()).check()
