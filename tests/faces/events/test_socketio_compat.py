"""The packet queue of a client, and the validation of what clients send."""

import asyncio

import pytest
from engineio.packet import MESSAGE, Packet

from farsteer.faces.events.packet_queue import PacketQueue
from farsteer.faces.events.packets import (
    CLOSE_PACKET,
    POLLED_PACKETS,
    JsonCodec,
    check_payload,
    is_valid_packet,
)
from farsteer.faces.events.socketio_compat import SocketIOPacket


def packet(text: str = "x") -> Packet:
    return Packet(MESSAGE, text)


async def test_the_queue_is_idle_only_while_its_reader_waits() -> None:
    queue = PacketQueue(soft_limit=1000)
    assert not queue.is_idle
    reading = asyncio.create_task(queue.get())
    await asyncio.sleep(0)
    assert queue.is_idle
    queue.put_nowait(packet())
    assert not queue.is_idle
    await reading
    assert queue.empty()
    assert not queue.is_idle, "taken, but perhaps not written yet"
    reading = asyncio.create_task(queue.get())
    await asyncio.sleep(0)
    assert queue.is_idle
    reading.cancel()


async def test_the_queue_is_not_idle_while_its_reader_writes() -> None:
    queue = PacketQueue(soft_limit=1000)
    queue.put_nowait(packet())
    await queue.get()
    assert not queue.is_idle


async def test_one_poll_takes_a_limited_number_of_packets() -> None:
    queue = PacketQueue(soft_limit=1000)
    for _ in range(40):
        queue.put_nowait(packet())
    for expected in (POLLED_PACKETS, POLLED_PACKETS, 40 - 2 * POLLED_PACKETS):
        await queue.get()
        for _ in range(expected - 1):
            queue.get_nowait()
        with pytest.raises(asyncio.QueueEmpty):
            queue.get_nowait()


async def test_the_queue_counts_characters_and_reports_when_it_is_no_longer_behind() -> None:
    queue = PacketQueue(soft_limit=100)
    reported: list[int] = []
    queue.on_writable = lambda: reported.append(queue.size)
    for _ in range(5):
        queue.put_nowait(packet("x" * 40))
    queue.put_nowait(None)
    assert (queue.size, queue.is_behind) == (200, True)
    for _ in range(3):
        await queue.get()
    assert (queue.size, queue.is_behind) == (80, False)
    await asyncio.sleep(0)
    assert reported == [80], "once"
    for _ in range(3):
        await queue.get()
    assert queue.size == 0


@pytest.mark.parametrize(
    "text", ["1", "2probe", "3", "5", "6", '40/events,{"token":"x"}', "41/events,", "42[]", "43"]
)
def test_valid_packets_pass(text: str) -> None:
    assert is_valid_packet(text)
    assert check_payload(text.encode()) == text.encode()
    assert check_payload(f"3\x1e{text}".encode()) == f"3\x1e{text}".encode()


@pytest.mark.parametrize(
    "text", ["", "0", "0{}", "2", "2x", "3probe", "4", "4[]", "44", "45", "46", "49", "7", "b4", "²"]
)
def test_an_invalid_packet_becomes_a_close_packet(text: str) -> None:
    assert not is_valid_packet(text)
    assert check_payload(text.encode()) == CLOSE_PACKET
    assert check_payload(f"3\x1e{text}".encode()) == CLOSE_PACKET


def test_invalid_utf8_becomes_a_close_packet() -> None:
    assert check_payload(b"42\xff") == CLOSE_PACKET


@pytest.mark.parametrize(
    "text",
    ["2/x,[]", "2/x,{}", "2/x,[1]", '2/x,["connect"]', '2["disconnect",1]', "2/x,[", "51-[]", "4"],
)
def test_invalid_socketio_packets_are_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"not|unexpected"):
        SocketIOPacket(encoded_packet=text)


def test_an_event_with_an_ack_id_is_decoded() -> None:
    packet = SocketIOPacket(encoded_packet='2/events,12["auth",{"token":"t"}]')
    assert (packet.namespace, packet.id, packet.data) == ("/events", 12, ["auth", {"token": "t"}])


def test_json_is_compact_and_deep_nesting_is_a_value_error() -> None:
    assert JsonCodec.dumps({"a": [1, "ü"]}, separators=(",", ":")) == '{"a":[1,"ü"]}'
    for text in ("[" * 100_000, "{", ""):
        with pytest.raises(ValueError, match="not JSON"):
            JsonCodec.loads(text)
