"""Engine.IO and Socket.IO packets, over polling and over a websocket."""

from __future__ import annotations

import json
import re

import httpx

from tests.fuzz.attack import Attack
from tests.fuzz.corpus import socketio_packets
from tests.fuzz.wire import BINARY, connected

_PATH = "/socket.io/?EIO=4&transport="


async def play(attack: Attack) -> None:
    if attack.mutator.chance(0.5):
        await _poll(attack)
    else:
        await _connect(attack)


async def _connect(attack: Attack) -> None:
    mutator = attack.mutator
    packets = await _packets(attack)
    async with connected(attack) as wire:
        query = mutator.pick(("", "", "", "&sid=x", "&EIO=3", "&b64=1", "&sid=" + "x" * 3000))
        if not await wire.upgrade(f"{_PATH}websocket{query}", {}):
            return
        await wire.receive(5.0)
        if mutator.chance(0.7):
            await wire.frame(0x81, packets[0].encode())
            await wire.receive(1.0)
        for _ in range(mutator.pick((1, 3, 10))):
            if not wire.open:
                break
            body = _packet(attack, packets)
            if mutator.chance(0.1):
                await wire.frame(BINARY, mutator.random.randbytes(mutator.pick((0, 1, 100, 60_000))))
            await wire.send_oddly(body)
        await wire.receive(0.05)


async def _poll(attack: Attack) -> None:
    mutator, http = attack.mutator, attack.target.http
    try:
        answer = await http.get(f"{_PATH}polling")
        if not answer.is_success:
            return
        sid = json.loads(answer.text[1:])["sid"]
        place = f"{_PATH}polling&sid={sid}"
        packets = await _packets(attack)
        if mutator.chance(0.7):
            await http.post(place, content=packets[0])
        for _ in range(mutator.pick((1, 3))):
            parts = [_packet(attack, packets) for _ in range(mutator.pick((1, 1, 2, 16, 17, 200)))]
            body = b"\x1e".join(parts)[: 200 * 1024]
            attack.sent(body)
            answer = await http.post(place, content=body)
            if answer.status_code == 500:
                raise attack.fail(f"a poll was answered with 500: {answer.text[:300]}")
        if mutator.chance(0.3):
            await http.get(place, timeout=0.2)
        if mutator.chance(0.8):
            await http.post(place, content="1")
    except httpx.TimeoutException:
        return
    except httpx.HTTPError as error:
        raise attack.fail(f"a poll was not answered: {error!r}") from error


async def _packets(attack: Attack) -> list[str]:
    target = attack.target
    return socketio_packets(await target.jwt(), attack.mutator.pick(target.sessions))


def _packet(attack: Attack, packets: list[str]) -> bytes:
    mutator = attack.mutator
    packet = mutator.pick(packets)
    head, json_text = re.findall(r"^([^\[{]*)(.*)$", packet)[0]
    kind = mutator.random.random()
    if kind < 0.2:
        return packet.encode()
    if kind < 0.6 and json_text:
        return head.encode() + mutator.message(json.loads(json_text))
    return mutator.bytes(packet.encode())
