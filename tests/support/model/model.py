"""The scripted model. It answers each request by the script in it and keeps no conversation."""

from __future__ import annotations

import asyncio
import json
import time
import traceback
from collections import Counter, defaultdict
from dataclasses import dataclass, field
from typing import Any

from tests.support.model.answer import Answer
from tests.support.model.conversation import Conversation
from tests.support.model.dialects import Dialect, dialect_of
from tests.support.model.http import Exchange, Gone, Request
from tests.support.model.log import Log
from tests.support.model.script import (
    BadScript,
    Cut,
    Drop,
    Fail,
    Hang,
    Meet,
    Say,
    SayTime,
    Search,
    Sleep,
    Step,
    Tell,
    Think,
    Use,
    play,
)
from tests.support.model.tools import call

SIDE = "side"
"""The answer to what is no turn: an agent's session gets this title."""


@dataclass
class Meeting:
    """Counts arrivals and wakes those who wait for a number of them."""

    present: int = 0
    waiting: list[tuple[int, asyncio.Event]] = field(default_factory=list)

    def come(self) -> None:
        self.present += 1
        for count, enough in self.waiting:
            if self.present >= count:
                enough.set()


class Model:
    def __init__(self, log: Log, delay: float = 0.0) -> None:
        self._log = log
        self._delay = delay
        self._failed: Counter[tuple[str, Step]] = Counter()
        self._meetings: defaultdict[str, Meeting] = defaultdict(Meeting)

    async def handle(self, exchange: Exchange) -> None:
        seen = self._log.begin(exchange.request)
        outcome = "gone"
        try:
            dialect = dialect_of(exchange.request.path)
            if exchange.request.method != "POST" or dialect is None:
                await exchange.json(*_other(exchange.request))
                outcome = "other"
                return
            conversation = dialect.read(exchange.request.path, json.loads(exchange.request.body))
            self._log.understood(seen, conversation)
            outcome = await self._answer(exchange, conversation, dialect)
        except BadScript as error:
            outcome = "mistake"
            self._log.mistakes.append(f"request {seen.number}: {error}")
            if exchange.streaming:
                exchange.drop()
            else:
                await exchange.json(400, {"error": {"message": f"bad script: {error}", "type": "bad_script"}})
        except (Gone, ConnectionError, asyncio.CancelledError):
            raise
        except Exception:
            outcome = "mistake"
            self._log.mistakes.append(f"request {seen.number}: {traceback.format_exc()}")
            exchange.drop()
        finally:
            self._log.finish(seen, outcome)

    async def _answer(self, exchange: Exchange, conversation: Conversation, dialect: type[Dialect]) -> str:
        """Send the answer and return the outcome."""
        answer = Answer(exchange, dialect(conversation.model), stream=conversation.stream, delay=self._delay)
        if conversation.is_side:
            await answer.say("text", SIDE)
            await answer.end()
            return "side"
        for step in play(conversation.script, conversation.results):
            match step:
                case Say(text):
                    await answer.say("text", text)
                case SayTime():
                    await answer.say("text", f"{time.monotonic_ns()} ")
                case Think(text):
                    await answer.say("thought", text)
                case Tell(about):
                    await answer.say("text", json.dumps(_told(about, conversation)))
                case Search(query):
                    if dialect.wire != "responses":
                        raise BadScript("[[search]] is known to the wire format responses only")
                    await answer.search(query)
                case Use():
                    await answer.call(call(step, conversation.tools, may_escalate=conversation.may_escalate))
                case Sleep(seconds):
                    await exchange.wait(None, seconds)
                case Meet(name, count):
                    await self._meet(exchange, name, count)
                case Hang():
                    await exchange.wait(asyncio.Event())
                case Fail(status, times):
                    if self._due(conversation, step, times):
                        await answer.fail(status)
                        return f"error {status}"
                case Drop(times):
                    if self._due(conversation, step, times):
                        exchange.drop()
                        return "dropped"
                case Cut():
                    await answer.cut()
                    return "cut"
        await answer.end()
        return "answered"

    def _due(self, conversation: Conversation, step: Step, times: int | None) -> bool:
        """Return whether this failure happens now. The counts and the meetings are the model's only state."""
        key = (conversation.script, step)
        self._failed[key] += 1
        return times is None or self._failed[key] <= times

    def meet(self, name: str) -> None:
        """Count one arrival, of a request or of the test."""
        self._meetings[name].come()

    async def _meet(self, exchange: Exchange, name: str, count: int) -> None:
        enough = asyncio.Event()
        self._meetings[name].waiting.append((count, enough))
        self.meet(name)
        await exchange.wait(enough)


def _told(about: str, conversation: Conversation) -> dict[str, Any]:
    if about == "history":
        return {"history": conversation.heads()}
    return {
        "wire": conversation.wire,
        "model": conversation.model,
        "effort": conversation.effort,
        "tools": len(conversation.tools),
        "images": conversation.images,
    }


def _other(request: Request) -> tuple[int, Any]:
    """Answer requests other than completions."""
    path = request.path
    if path.endswith("/count_tokens"):
        return 200, {"input_tokens": 100}
    if path.endswith(":countTokens"):
        return 200, {"totalTokens": 100}
    if path.endswith("/models"):
        return 200, {
            "object": "list",
            "data": [{"id": "fake-model", "object": "model", "owned_by": "scripted"}],
        }
    if path.startswith("/api/"):
        return 404, {"error": "this is only a model"}
    return 200, {}
