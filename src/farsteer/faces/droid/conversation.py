"""The session a client is in: what happens in it goes out, what the client answers goes in."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Iterable
from contextlib import AsyncExitStack, suppress

from farsteer.client.hub_client import HubClient
from farsteer.client.live import Gap, LiveEvent
from farsteer.core.api import Approve, Deny, SessionView
from farsteer.core.errors import AlreadyAnswered, BadRequest, Conflict, FarsteerError, NotFound
from farsteer.core.events import Entry
from farsteer.faces.droid import asking, notes
from farsteer.faces.droid.dialect import Dialect
from farsteer.faces.droid.teller import Teller, Telling
from farsteer.faces.droid.transcript import Transcript
from farsteer.faces.droid.wire import Answer, Writing
from farsteer.jsonrpc.stdio import StdoutWriter

_log = logging.getLogger(__name__)

_INTERRUPT_SECONDS = 8.0
"""An agent that does not let itself be interrupted is ended before that."""


class Out:
    """Where lines go, in one dialect."""

    def __init__(self, writer: StdoutWriter, dialect: Dialect) -> None:
        self.dialect = dialect
        self.writing = Writing(dialect)
        self.write = writer.write

    async def tell(self, telling: Telling, session: str) -> None:
        if isinstance(telling, asking.Request):
            line = self.writing.request(telling.approval.id, telling.method, telling.params)
        else:
            line = self.writing.note(telling, session)
        await self.write(line)


class Conversation:
    def __init__(
        self, steering: HubClient, view: SessionView, events: AsyncIterator[LiveEvent], out: Out, teller: Teller,
        name: str,
    ) -> None:  # fmt: skip
        self.id = view.id
        self.agent = view.agent
        self.directory = view.directory
        self.name = name
        """What the client calls it."""
        self.teller = teller
        self.messages: list[notes.Message] = []
        self.quiet = asyncio.Lock()
        """Held by who speaks: nothing of a turn may be told before the request for it is acknowledged."""
        self._steering = steering
        self._events = events
        self._out = out
        self._news = asyncio.Condition()
        self._opened = AsyncExitStack()
        self._following: asyncio.Task[None] | None = None

    @classmethod
    async def open(
        cls, steering: HubClient, session_id: str, out: Out, *, name: str, levels: bool, history: bool
    ) -> Conversation:  # fmt: skip
        """Subscribed, but silent until `begin`. Raises NotFound."""
        async with AsyncExitStack() as opened:
            events = await opened.enter_async_context(steering.follow(session_id))
            view = await steering.session(session_id)
            transcript = Transcript(view.directory)
            messages: list[notes.Message] = []
            if history:
                async for entry in steering.messages(session_id):
                    if entry.seq > view.seq:
                        break
                    messages += transcript.read(entry)
            teller = Teller(view.state(), transcript, out.dialect, name=name, levels=levels)
            conversation = cls(steering, view, events, out, teller, name)
            conversation.messages = messages
            conversation._opened = opened.pop_all()
        return conversation

    def begin(self) -> None:
        self._following = asyncio.create_task(self._follow(), name=f"droid face {self.id}")

    async def close(self) -> None:
        """Tell no more of it."""
        if self._following is not None:
            self._following.cancel()
            await asyncio.gather(self._following, return_exceptions=True)
        await self._opened.aclose()

    async def answer(self, answer: Answer) -> None:
        """The client's answer to something it was asked; one to what is gone is late, not wrong."""
        request = self.teller.asked.get(answer.id or "")
        if request is None:
            _log.info("an answer to nothing that is open: %s", answer.id)
            return
        if answer.error is not None:
            decision: Approve | Deny | None = Deny(
                message=answer.error.message or "the client refused to ask"
            )
        else:
            decision = asking.decision(request, answer.result)
        if decision is None:
            _log.warning(
                "the answer to %s is none: its answers must be objects with index and answer", answer.id
            )
            return
        await self._decide(request, answer, decision)

    async def _decide(self, request: asking.Request, answer: Answer, decision: Approve | Deny) -> None:
        approval, word = request.approval.id, asking.word(answer.result, decision)
        self.teller.answered(approval, word, asking.mode_after(request, word))
        try:
            await self._steering.answer(self.id, approval, decision)
        except (AlreadyAnswered, NotFound) as error:
            _log.info("somebody else has answered %s: %s", approval, error.message)
        except BadRequest as error:
            _log.warning("the answer to %s cannot be taken: %s", approval, error.message)
            with suppress(AlreadyAnswered, NotFound, Conflict):
                await self._steering.answer(self.id, approval, Deny(message=error.message))
        except FarsteerError as error:
            _log.error("the answer to %s did not arrive: %s", approval, error.message)

    async def conclude(self, patience: float) -> None:
        """Let what runs come to its end, as long as nobody has to be asked; then end it."""
        with suppress(TimeoutError):
            async with asyncio.timeout(patience):
                await self.settled(asked=True)
        if self.teller.owed:
            with suppress(TimeoutError, FarsteerError):
                async with asyncio.timeout(_INTERRUPT_SECONDS):
                    await self.interrupt()
                    await self.settled(asked=False)

    async def interrupt(self) -> None:
        """End the running turn; what waits behind it is discarded, as Droid does."""
        for item in sorted(self.teller.owed):
            # The one that runs cannot be taken back; the abort is for it.
            with suppress(Conflict, NotFound):
                await self._steering.cancel(self.id, item)
        await self._steering.abort(self.id)

    async def settled(self, *, asked: bool) -> None:
        """Until every message of the client has its end; with `asked` also when somebody has to be asked."""
        async with self._news:
            await self._news.wait_for(
                lambda: not self.teller.owed or (asked and bool(self.teller.asked)) or self._over
            )

    @property
    def _over(self) -> bool:
        return self._following is None or self._following.done()

    async def say(self, tellings: Iterable[Telling]) -> None:
        for telling in tellings:
            await self._out.tell(telling, self.name)

    async def _follow(self) -> None:
        try:
            async for event in self._events:
                if not await self._take(event):
                    return
        except FarsteerError as error:
            _log.error("session %s is no longer followed: %s", self.id, error.message)
            await self.say([notes.failure(error.message, error.code.value)])
        finally:
            self.teller.owed.clear()
            async with self._news:
                self._news.notify_all()

    async def _take(self, event: LiveEvent) -> bool:
        if isinstance(event, Gap):
            async for entry in self._steering.messages(self.id, after=self.teller.state.seq):
                await self._entry(entry)
        elif event.type == "session-removed":
            await self.say([notes.failure("the session was deleted", "not_found")])
            return False
        elif event.entry is not None:
            await self._entry(event.entry)
        elif event.delta is not None:
            async with self.quiet:
                await self.say(self.teller.fragment(event.delta))
        return True

    async def _entry(self, entry: Entry) -> None:
        async with self.quiet:
            if entry.seq > self.teller.state.seq:
                await self.say(self.teller.tell(entry))
        async with self._news:
            self._news.notify_all()
