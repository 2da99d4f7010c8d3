"""ACP over the websocket `/acp`: JSON-RPC with odd types and ids, batches, depth and frames."""

from __future__ import annotations

import json
from typing import Any

from tests.fuzz.attack import Attack
from tests.fuzz.corpus import acp_messages
from tests.fuzz.mutator import Mutator
from tests.fuzz.wire import WebSocketWire, connected

_ANSWER_SECONDS = 20.0


async def play(attack: Attack) -> None:
    mutator, target = attack.mutator, attack.target
    token = target.token if mutator.chance(0.9) else mutator.pick(("", "a.b", "a.b.c", "x" * 5000))
    async with connected(attack) as wire:
        if not await wire.upgrade("/acp", {"Authorization": f"Bearer {token}"}):
            return
        messages = acp_messages(target, mutator.pick(target.sessions))
        if mutator.chance(0.8):
            await wire.frame(0x81, json.dumps(messages[0]).encode())
        for _ in range(mutator.pick((1, 5, 20))):
            if not wire.open:
                return
            await wire.send_oddly(json_rpc(mutator, messages))
            await wire.receive(0.002)
        if not wire.is_out_of_step:
            await _still_answers(attack, wire)


async def _still_answers(attack: Attack, wire: WebSocketWire) -> None:
    """A connection that is still open answers a valid request."""
    last: dict[str, Any] = {"jsonrpc": "2.0", "id": "last", "method": "session/list", "params": {}}
    await wire.frame(0x81, json.dumps(last).encode())
    while wire.open:
        message = await wire.receive(_ANSWER_SECONDS)
        if message is not None and b'"last"' in message:
            return
        if message is None and wire.open:
            raise attack.fail(f"a valid request was not answered within {_ANSWER_SECONDS:g} s")


def json_rpc(mutator: Mutator, messages: list[dict[str, Any]]) -> bytes:
    """A mutated message, or a batch of some."""
    kind = mutator.random.random()
    if kind < 0.85:
        return mutator.message(mutator.pick(messages))
    if kind < 0.95:
        return mutator.message(
            [mutator.mutate(mutator.pick(messages)) for _ in range(mutator.pick((0, 2, 30)))]
        )
    if kind < 0.98:
        return (
            b"["
            + b",".join([mutator.pick((b"1", b"{}", b"null", b"[]"))] * mutator.pick((10, 1000, 200_000)))
            + b"]"
        )
    return mutator.random.randbytes(200)
