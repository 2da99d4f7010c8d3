"""`Client`: the asyncio client for programs without an event loop. It runs on one of its own, in a thread."""

from __future__ import annotations

import asyncio
import functools
import threading
from collections.abc import AsyncIterator, Callable, Coroutine, Iterable, Iterator, Sequence
from types import TracebackType
from typing import Any, Concatenate, Generic, ParamSpec, Protocol, Self, TypeVar

import httpx

from farsteer.client import turn as aio_turn
from farsteer.client.aio import AsyncClient
from farsteer.client.handle import Handle, of_session
from farsteer.client.live import LiveEvent
from farsteer.client.session import AsyncSession
from farsteer.client.turn import Decision, TurnResult, TurnUpdate
from farsteer.core.api import NewAttachment
from farsteer.core.approvals import Approval
from farsteer.core.errors import Conflict

P = ParamSpec("P")
T = TypeVar("T")
Item = TypeVar("Item", covariant=True)

OnApproval = Callable[[Approval], Decision]


class _Loop:
    """An event loop in a thread of its own."""

    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="farsteer-client", daemon=True)
        self._thread.start()

    @property
    def closed(self) -> bool:
        return self._loop.is_closed()

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        if self.closed:
            work.close()
            raise Conflict("the client is closed")
        future = asyncio.run_coroutine_threadsafe(work, self._loop)
        try:
            return future.result()
        except BaseException:
            # Ctrl-C in the waiting thread: the work must not go on behind its back.
            future.cancel()
            raise

    def close(self) -> None:
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.run_until_complete(self._loop.shutdown_asyncgens())
        self._loop.close()


class _Live(Protocol[Item]):
    async def __aenter__(self) -> Any: ...

    async def __anext__(self) -> Item: ...

    async def aclose(self) -> None: ...


class Stream(Generic[T]):
    """An iterator over something live; as a context manager it has begun when its body does, and ends with it."""

    def __init__(self, client: Client, source: _Live[T]) -> None:
        self._client = client
        self._source = source

    def __enter__(self) -> Self:
        self._client.run(self._source.__aenter__())
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        self._client.run(self._source.aclose())

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> T:
        try:
            return self._client.run(self._source.__anext__())
        except StopAsyncIteration:
            raise StopIteration from None


class Turn(Stream[TurnUpdate]):
    """What happens in one turn; `result` is there when it ends."""

    def __init__(self, client: Client, turn: aio_turn.Turn, on_approval: OnApproval | None) -> None:
        super().__init__(client, turn)
        self._turn = turn
        self._on_approval = on_approval

    @property
    def result(self) -> TurnResult | None:
        return self._turn.result

    def __next__(self) -> TurnUpdate:
        update = super().__next__()
        if update.approval is not None and self._on_approval is not None:
            # Here and not in the loop's thread: the callback may well talk to a person.
            self.answer(update.approval, self._on_approval(update.approval))
        return update

    def answer(self, approval: Approval, decision: Decision) -> None:
        """Answer; None and being too late are no errors."""
        self._client.run(self._turn.answer(approval, decision))

    def finish(self) -> TurnResult:
        """Follow the turn to its end."""
        for _ in self:
            pass
        return self._client.run(self._turn.finish())


def _blocking(
    method: Callable[Concatenate[AsyncClient, P], Coroutine[Any, Any, T]],
) -> Callable[Concatenate[Client, P], T]:
    @functools.wraps(method)
    def call(self: Client, *args: P.args, **kwargs: P.kwargs) -> T:
        return self.run(method(self.aio, *args, **kwargs))

    return call


def _iterating(
    method: Callable[Concatenate[AsyncClient, P], AsyncIterator[T]],
) -> Callable[Concatenate[Client, P], Iterator[T]]:
    end = object()

    @functools.wraps(method)
    def call(self: Client, *args: P.args, **kwargs: P.kwargs) -> Iterator[T]:
        source = method(self.aio, *args, **kwargs)

        async def step() -> T | object:
            return await anext(source, end)

        while (item := self.run(step())) is not end:
            yield item  # pyright: ignore[reportReturnType]

    return call


def _starting(
    method: Callable[Concatenate[AsyncClient, P], Coroutine[Any, Any, AsyncSession]],
) -> Callable[Concatenate[Client, P], Session]:
    @functools.wraps(method)
    def call(self: Client, *args: P.args, **kwargs: P.kwargs) -> Session:
        return self.attach(self.run(method(self.aio, *args, **kwargs)).id)

    return call


class Client:
    """A hub. Without arguments it finds the hub and the token of this machine; `AsyncClient` says the rest."""

    def __init__(
        self,
        url: str | None = None,
        token: str | None = None,
        *,
        allow_insecure: bool = False,
        transport: httpx.AsyncBaseTransport | None = None,
    ) -> None:
        self.aio = AsyncClient(url, token, allow_insecure=allow_insecure, transport=transport)
        self._loop = _Loop()

    @property
    def url(self) -> str:
        return self.aio.url

    def __enter__(self) -> Client:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        if not self._loop.closed:
            self.run(self.aio.aclose())
            self._loop.close()

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        """Run a coroutine of `aio` and wait for it."""
        return self._loop.run(work)

    def attach(self, session_id: str) -> Session:
        """A handle to a session that exists."""
        return Session(self, session_id)

    def events(
        self,
        session_id: str | None = None,
        *,
        types: Iterable[str] | None = None,
        since: str | None = None,
        patience: float | None = None,
    ) -> Stream[LiveEvent]:
        """Everything that happens in the namespace, or in one session, from now or from behind the cursor `since`."""
        return Stream(self, self.aio.events(session_id, types=types, since=since, patience=patience))

    start = _starting(AsyncClient.start)
    health = _blocking(AsyncClient.health)
    machines = _blocking(AsyncClient.machines)
    machine = _blocking(AsyncClient.machine)
    agents = _blocking(AsyncClient.agents)
    online_users = _blocking(AsyncClient.online_users)
    conversations = _blocking(AsyncClient.conversations)
    adopt = _starting(AsyncClient.adopt)
    usage = _blocking(AsyncClient.usage)
    create_session = _blocking(AsyncClient.create_session)
    sessions = _iterating(AsyncClient.sessions)
    session = _blocking(AsyncClient.session)
    rename = _blocking(AsyncClient.rename)
    delete = _blocking(AsyncClient.delete)
    abort = _blocking(AsyncClient.abort)
    stop = _blocking(AsyncClient.stop)
    resume = _blocking(AsyncClient.resume)
    rewind = _blocking(AsyncClient.rewind)
    fork = _starting(AsyncClient.fork)
    export = _iterating(AsyncClient.export)
    set_permission_mode = _blocking(AsyncClient.set_permission_mode)
    set_model = _blocking(AsyncClient.set_model)
    send = _blocking(AsyncClient.send)
    messages = _iterating(AsyncClient.messages)
    log = _iterating(AsyncClient.log)
    history = _iterating(AsyncClient.history)
    clear_messages = _blocking(AsyncClient.clear_messages)
    queue = _blocking(AsyncClient.queue)
    cancel = _blocking(AsyncClient.cancel)
    send_now = _blocking(AsyncClient.send_now)
    typing = _blocking(AsyncClient.typing)
    approvals = _blocking(AsyncClient.approvals)
    approve = _blocking(AsyncClient.approve)
    deny = _blocking(AsyncClient.deny)
    answer = _blocking(AsyncClient.answer)
    tokens = _blocking(AsyncClient.tokens)
    create_token = _blocking(AsyncClient.create_token)
    revoke_token = _blocking(AsyncClient.revoke_token)


class Session(Handle[Client]):
    """A session to talk with. Its methods are the client's, without the id."""

    view = of_session(Client.session)
    send = of_session(Client.send)
    messages = of_session(Client.messages)
    history = of_session(Client.history)
    clear_messages = of_session(Client.clear_messages)
    events = of_session(Client.events)
    queue = of_session(Client.queue)
    cancel = of_session(Client.cancel)
    approve = of_session(Client.approve)
    deny = of_session(Client.deny)
    answer = of_session(Client.answer)
    typing = of_session(Client.typing)
    rewind = of_session(Client.rewind)
    fork = of_session(Client.fork)
    export = of_session(Client.export)
    send_now = of_session(Client.send_now)
    set_permission_mode = of_session(Client.set_permission_mode)
    set_model = of_session(Client.set_model)
    rename = of_session(Client.rename)
    abort = of_session(Client.abort)
    stop = of_session(Client.stop)
    resume = of_session(Client.resume)
    delete = of_session(Client.delete)

    def turn(
        self, text: str, *, attachments: Sequence[NewAttachment] = (), on_approval: OnApproval | None = None
    ) -> Turn:
        """Send `text` and follow its turn: `for update in session.turn("...")`."""
        return Turn(
            self.client, aio_turn.Turn(self.client.aio, self.id, text, attachments=attachments), on_approval
        )

    def ask(
        self, text: str, *, attachments: Sequence[NewAttachment] = (), on_approval: OnApproval | None = None
    ) -> TurnResult:
        """Send `text` and return how exactly that turn ended; `str()` of it is the answer.

        `on_approval` is called with each approval and returns True, False, an `Approve` or a `Deny`; None, like no
        callback at all, leaves it to whoever answers elsewhere.
        """
        with self.turn(text, attachments=attachments, on_approval=on_approval) as turn:
            return turn.finish().check()
