"""`Client` and `Session`: the SDK for programs without an event loop.

They run an `AsyncClient` on an event loop in a thread of their own. Most methods are made from those of `AsyncClient`,
with the same parameters and documentation.
"""

# A stream, a turn and a session are parts of their client and use its event loop.
# pyright: reportPrivateUsage=false

from __future__ import annotations

import asyncio
import functools
import inspect
import threading
from collections.abc import AsyncIterator, Callable, Coroutine, Iterable, Iterator, Sequence
from types import TracebackType
from typing import Any, Concatenate, Generic, ParamSpec, Protocol, Self, TypeVar

import httpx

from farsteer.client.async_client import AsyncClient
from farsteer.client.live_events import LiveEvent
from farsteer.client.session import AsyncSession, SentTurn, SessionHandle, for_session
from farsteer.client.turn import AsyncTurn, Decision, TurnResult, TurnUpdate
from farsteer.core.api import NewAttachment
from farsteer.core.approvals import Approval
from farsteer.core.errors import Conflict

P = ParamSpec("P")
Q = ParamSpec("Q")
T = TypeVar("T")
Item = TypeVar("Item", covariant=True)

OnApproval = Callable[[Approval], Decision]
"""Decides an approval. Returns True or an `Approve`, False or a `Deny`, or None to leave it to somebody else."""

_SYNC_NAMES = {"AsyncIterator": "Iterator", "AsyncSession": "Session"}
"""How a type in the signature of an asynchronous method is called in that of the method made from it."""


class _LoopThread:
    """An event loop in a thread of its own."""

    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="farsteer-client", daemon=True)
        self._thread.start()

    @property
    def closed(self) -> bool:
        return self._loop.is_closed()

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        """Run a coroutine in the loop's thread and wait for its result."""
        if self.closed:
            work.close()
            raise Conflict("the client is closed")
        future = asyncio.run_coroutine_threadsafe(work, self._loop)
        try:
            return future.result()
        except BaseException:
            # After Ctrl-C in the waiting thread, the coroutine must not continue in the background.
            future.cancel()
            raise

    def close(self) -> None:
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.run_until_complete(self._loop.shutdown_asyncgens())
        self._loop.close()


class _AsyncStream(Protocol[Item]):
    """What `Stream` needs of an `EventStream` or an `AsyncTurn`."""

    async def __aenter__(self) -> Any: ...

    async def __anext__(self) -> Item: ...

    async def aclose(self) -> None: ...


class Stream(Generic[T]):
    """An iterator over live events or the updates of a turn.

    As a context manager it has subscribed when its body begins, and is closed when the body ends.
    """

    def __init__(self, client: Client, source: _AsyncStream[T]) -> None:
        self._client = client
        self._source = source

    def __enter__(self) -> Self:
        self._client._run(self._source.__aenter__())
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """End the subscription. Idempotent."""
        self._client._run(self._source.aclose())

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> T:
        try:
            return self._client._run(self._source.__anext__())
        except StopAsyncIteration:
            raise StopIteration from None


class Turn(Stream[TurnUpdate]):
    """Sends a message and iterates over what happens until its turn has ended. Get one from `Session.turn`."""

    def __init__(self, client: Client, turn: AsyncTurn, on_approval: OnApproval | None) -> None:
        super().__init__(client, turn)
        self._turn = turn
        self._on_approval = on_approval

    @property
    def result(self) -> TurnResult | None:
        """How the turn ended; None before."""
        return self._turn.result

    def __next__(self) -> TurnUpdate:
        update = super().__next__()
        approval = update.approval
        if approval is not None and self._on_approval is not None and self._turn.is_open(approval):
            # Called in the caller's thread, because it may block, for example to ask a person.
            self.answer(approval, self._on_approval(approval))
        return update

    def answer(self, approval: Approval, decision: Decision) -> None:
        """Answer an approval of this turn. Does nothing if `decision` is None or somebody else has answered it."""
        self._client._run(self._turn.answer(approval, decision))

    def finish(self) -> TurnResult:
        """Follow the turn to its end and return the result, whatever it is; `check` of it raises if it failed.

        Raises:
            NotFound: The session was deleted.
            Unavailable: The hub could not be reached for too long.
            TimedOut: The turn has not ended in time.
            Conflict: The turn was closed before it ended.
        """
        for _ in self:
            pass
        return self._client._run(self._turn.finish())


def _described(call: Callable[Q, T], method: Callable[..., object]) -> Callable[Q, T]:
    """Give `call` the name, documentation and signature of the asynchronous method, with the types that it returns."""
    functools.update_wrapper(call, method)
    signature = inspect.signature(method)
    returned = str(signature.return_annotation)
    for asynchronous, name in _SYNC_NAMES.items():
        returned = returned.replace(asynchronous, name)
    call.__dict__["__signature__"] = signature.replace(return_annotation=returned)
    call.__annotations__ = {**call.__annotations__, "return": returned}
    return call


def _blocking(
    method: Callable[Concatenate[AsyncClient, P], Coroutine[Any, Any, T]],
) -> Callable[Concatenate[Client, P], T]:
    """Turn a coroutine method into one that waits."""

    def call(self: Client, *args: P.args, **kwargs: P.kwargs) -> T:
        return self._run(method(self._aio, *args, **kwargs))

    return _described(call, method)


def _iterating(
    method: Callable[Concatenate[AsyncClient, P], AsyncIterator[T]],
) -> Callable[Concatenate[Client, P], Iterator[T]]:
    """Turn an asynchronous generator method into a generator."""

    def call(self: Client, *args: P.args, **kwargs: P.kwargs) -> Iterator[T]:
        source = method(self._aio, *args, **kwargs)

        async def next_item() -> T:
            return await anext(source)

        while True:
            try:
                item = self._run(next_item())
            except StopAsyncIteration:
                return
            yield item

    return _described(call, method)


def _returning_session(
    method: Callable[Concatenate[AsyncClient, P], Coroutine[Any, Any, AsyncSession]],
) -> Callable[Concatenate[Client, P], Session]:
    """Turn a coroutine method that returns an `AsyncSession` into one that waits and returns a `Session`."""

    def call(self: Client, *args: P.args, **kwargs: P.kwargs) -> Session:
        return self.attach(self._run(method(self._aio, *args, **kwargs)).id)

    return _described(call, method)


class Client:
    """A client of one hub. `farsteer.AsyncClient` is the same for asyncio.

        with Client() as client:
            session = client.start(".", agent="demo")
            print(session.ask("hello"))

    Every method may raise an exception of `farsteer.errors`; branch on its class or its `code`. Common to all of them
    are `Unavailable` if the hub cannot be reached and `Unauthorized` if it refuses the access token. Every method that
    waits takes a `timeout` in seconds and then raises `TimedOut`. Several threads may use one client.

    Args:
        url: The address of the hub. Defaults to `$FARSTEER_HUB`, the hub that runs on this machine's home directory,
            the hub of `farsteer login`, or `http://127.0.0.1:3006`, in this order.
        token: The access token. Defaults to `$CLI_API_TOKEN`, the token of `farsteer login` for this hub, or the token
            file in the home directory if the hub runs on it.
        allow_insecure: Allow unencrypted http to another machine.
        transport: An asynchronous httpx transport to send requests by, for tests and unusual networks.

    Raises:
        BadRequest: The address is not one of a hub, or would send the token unencrypted.
        Unauthorized: No access token was found.
    """

    def __init__(
        self,
        url: str | None = None,
        token: str | None = None,
        *,
        allow_insecure: bool = False,
        transport: httpx.AsyncBaseTransport | None = None,
    ) -> None:
        self._aio = AsyncClient(url, token, allow_insecure=allow_insecure, transport=transport)
        self._loop = _LoopThread()

    @property
    def url(self) -> str:
        """The address of the hub."""
        return self._aio.url

    def __enter__(self) -> Client:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Close all connections and end the thread. Idempotent."""
        if not self._loop.closed:
            self._run(self._aio.aclose())
            self._loop.close()

    def _run(self, work: Coroutine[Any, Any, T]) -> T:
        """Run a coroutine of the asynchronous client and return its result.

        Raises:
            Conflict: The client is closed.
        """
        return self._loop.run(work)

    def attach(self, session_id: str) -> Session:
        """Return a handle of an existing session. Does not check that it exists."""
        return Session(self, session_id)

    def events(
        self,
        session_id: str | None = None,
        *,
        types: Iterable[str] | None = None,
        since: str | None = None,
        reconnect_timeout: float | None = None,
        timeout: float | None = None,
    ) -> Stream[LiveEvent]:
        """Return the live events of the namespace, or of one session, as an iterator.

        Args:
            session_id: Return only events of this session.
            types: Return only events of these types.
            since: The cursor of an event; begin behind it. Defaults to now.
            reconnect_timeout: Raise if a lost connection could not be restored for this many seconds. None retries
                without end.
            timeout: Seconds to wait for each event. After a `TimedOut` the iteration can go on, and misses nothing.
        """
        return Stream(
            self,
            self._aio.events(
                session_id, types=types, since=since, reconnect_timeout=reconnect_timeout, timeout=timeout
            ),
        )

    start = _returning_session(AsyncClient.start)
    health = _blocking(AsyncClient.health)
    machines = _blocking(AsyncClient.machines)
    machine = _blocking(AsyncClient.machine)
    remove_machine = _blocking(AsyncClient.remove_machine)
    release_machine = _blocking(AsyncClient.release_machine)
    limits = _blocking(AsyncClient.limits)
    storage = _blocking(AsyncClient.storage)
    compact = _blocking(AsyncClient.compact)
    agents = _blocking(AsyncClient.agents)
    online_users = _blocking(AsyncClient.online_users)
    conversations = _blocking(AsyncClient.conversations)
    foreign_sessions = _blocking(AsyncClient.foreign_sessions)
    adopt_foreign_session = _blocking(AsyncClient.adopt_foreign_session)
    end_foreign_session = _blocking(AsyncClient.end_foreign_session)
    adopt = _returning_session(AsyncClient.adopt)
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
    fork = _returning_session(AsyncClient.fork)
    handoff = _returning_session(AsyncClient.handoff)
    export = _iterating(AsyncClient.export)
    worktree = _blocking(AsyncClient.worktree)
    diff = _blocking(AsyncClient.diff)
    merge = _blocking(AsyncClient.merge)
    rebase = _blocking(AsyncClient.rebase)
    name_branch = _blocking(AsyncClient.name_branch)
    discard = _blocking(AsyncClient.discard)
    worktrees = _blocking(AsyncClient.worktrees)
    clean_worktrees = _blocking(AsyncClient.clean_worktrees)
    set_permission_mode = _blocking(AsyncClient.set_permission_mode)
    set_model = _blocking(AsyncClient.set_model)
    switch_agent = _blocking(AsyncClient.switch_agent)
    send = _blocking(AsyncClient.send)
    messages = _iterating(AsyncClient.messages)
    log = _iterating(AsyncClient.log)
    history = _iterating(AsyncClient.history)
    clear_messages = _blocking(AsyncClient.clear_messages)
    queue = _blocking(AsyncClient.queue)
    cancel = _blocking(AsyncClient.cancel)
    send_now = _blocking(AsyncClient.send_now)
    typing = _blocking(AsyncClient.typing)
    draft = _blocking(AsyncClient.draft)
    write_draft = _blocking(AsyncClient.write_draft)
    list_files = _blocking(AsyncClient.list_files)
    read_file = _blocking(AsyncClient.read_file)
    changes = _blocking(AsyncClient.changes)
    file_diff = _blocking(AsyncClient.file_diff)
    directories = _blocking(AsyncClient.directories)
    approvals = _blocking(AsyncClient.approvals)
    approve = _blocking(AsyncClient.approve)
    deny = _blocking(AsyncClient.deny)
    answer = _blocking(AsyncClient.answer)
    tokens = _blocking(AsyncClient.tokens)
    create_token = _blocking(AsyncClient.create_token)
    revoke_token = _blocking(AsyncClient.revoke_token)
    create_pairing = _blocking(AsyncClient.create_pairing)
    pairings = _blocking(AsyncClient.pairings)
    cancel_pairing = _blocking(AsyncClient.cancel_pairing)


class Session(SessionHandle[Client]):
    """One session. Get one from `Client.start` or `Client.attach`.

    `turn` and `ask` talk to the agent. The other methods are those of `Client` without the session id.
    """

    view = for_session(Client.session)
    send = for_session(Client.send)
    messages = for_session(Client.messages)
    history = for_session(Client.history)
    clear_messages = for_session(Client.clear_messages)
    events = for_session(Client.events)
    queue = for_session(Client.queue)
    cancel = for_session(Client.cancel)
    approve = for_session(Client.approve)
    deny = for_session(Client.deny)
    answer = for_session(Client.answer)
    typing = for_session(Client.typing)
    draft = for_session(Client.draft)
    write_draft = for_session(Client.write_draft)
    list_files = for_session(Client.list_files)
    read_file = for_session(Client.read_file)
    changes = for_session(Client.changes)
    file_diff = for_session(Client.file_diff)
    rewind = for_session(Client.rewind)
    fork = for_session(Client.fork)
    handoff = for_session(Client.handoff)
    export = for_session(Client.export)
    worktree = for_session(Client.worktree)
    diff = for_session(Client.diff)
    merge = for_session(Client.merge)
    rebase = for_session(Client.rebase)
    name_branch = for_session(Client.name_branch)
    discard = for_session(Client.discard)
    send_now = for_session(Client.send_now)
    set_permission_mode = for_session(Client.set_permission_mode)
    set_model = for_session(Client.set_model)
    switch_agent = for_session(Client.switch_agent)
    rename = for_session(Client.rename)
    abort = for_session(Client.abort)
    stop = for_session(Client.stop)
    resume = for_session(Client.resume)
    delete = for_session(Client.delete)

    def turn(
        self,
        text: str,
        *,
        attachments: Sequence[NewAttachment] = (),
        on_approval: OnApproval | None = None,
        timeout: float | None = None,
    ) -> Turn:
        """Return an iterator that sends a message and follows its turn.

            for update in session.turn("run the tests"):
                print(update.text, end="")

        Args:
            text: The message.
            attachments: Files to send with it.
            on_approval: Called with each approval, in the thread of the caller. Its return value is the answer: True
                or an `Approve`, False or a `Deny`, or None to leave it to somebody else, as without a callback.
            timeout: Seconds from the beginning to the end of the turn. Then `TimedOut` is raised; the turn goes on.
        """
        turn = AsyncTurn(self.client._aio, self.id, text, attachments=attachments, timeout=timeout)
        return Turn(self.client, turn, on_approval)

    def ask(
        self,
        text: str,
        *,
        attachments: Sequence[NewAttachment] = (),
        on_approval: OnApproval | None = None,
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
        turn = AsyncTurn(
            self.client._aio, self.id, text, attachments=attachments, needs_answers=on_approval is None,
            timeout=timeout,
        )  # fmt: skip
        with Turn(self.client, turn, on_approval) as followed:
            return followed.finish().check()

    def wait(
        self, item_id: str, *, on_approval: OnApproval | None = None, timeout: float | None = None
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
        turn = SentTurn(
            self.client._aio, self.id, item_id, needs_answers=on_approval is None, timeout=timeout
        )
        with Turn(self.client, turn, on_approval) as followed:
            return followed.finish().check()
