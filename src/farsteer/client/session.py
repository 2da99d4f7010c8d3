"""`AsyncSession`: one session to talk with."""

from __future__ import annotations

from collections.abc import Sequence

from farsteer.client.aio import AsyncClient
from farsteer.client.handle import Handle, of_session
from farsteer.client.turn import OnApproval, Turn, TurnResult
from farsteer.core.api import NewAttachment


class AsyncSession(Handle[AsyncClient]):
    """A session. Its methods are the client's, without the id; `turn` and `ask` speak with the agent."""

    view = of_session(AsyncClient.session)
    send = of_session(AsyncClient.send)
    messages = of_session(AsyncClient.messages)
    history = of_session(AsyncClient.history)
    clear_messages = of_session(AsyncClient.clear_messages)
    events = of_session(AsyncClient.events)
    queue = of_session(AsyncClient.queue)
    cancel = of_session(AsyncClient.cancel)
    approve = of_session(AsyncClient.approve)
    deny = of_session(AsyncClient.deny)
    answer = of_session(AsyncClient.answer)
    typing = of_session(AsyncClient.typing)
    rewind = of_session(AsyncClient.rewind)
    fork = of_session(AsyncClient.fork)
    export = of_session(AsyncClient.export)
    send_now = of_session(AsyncClient.send_now)
    set_permission_mode = of_session(AsyncClient.set_permission_mode)
    set_model = of_session(AsyncClient.set_model)
    rename = of_session(AsyncClient.rename)
    abort = of_session(AsyncClient.abort)
    stop = of_session(AsyncClient.stop)
    resume = of_session(AsyncClient.resume)
    delete = of_session(AsyncClient.delete)

    def turn(
        self, text: str, *, attachments: Sequence[NewAttachment] = (), on_approval: OnApproval | None = None
    ) -> Turn:
        """Send `text` and follow its turn: `async for update in session.turn("...")`.

        `on_approval` is called with each approval and returns True, False, an `Approve` or a `Deny`; None, like no
        callback at all, leaves it to whoever answers elsewhere.
        """
        return Turn(self.client, self.id, text, attachments=attachments, on_approval=on_approval)

    async def ask(
        self, text: str, *, attachments: Sequence[NewAttachment] = (), on_approval: OnApproval | None = None
    ) -> TurnResult:
        """Send `text` and return how exactly that turn ended; `str()` of it is the answer.

        Raises if the agent failed or died, or if the turn was cancelled.
        """
        async with self.turn(text, attachments=attachments, on_approval=on_approval) as turn:
            return (await turn.finish()).check()
