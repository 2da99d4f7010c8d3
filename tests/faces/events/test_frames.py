"""Encoded events are decoded by the libraries that clients use."""

import json

import pytest
from websockets.frames import Frame, Opcode
from websockets.protocol import OPEN, Protocol, Side

from farsteer.faces.events.frames import (
    encode_http_chunk,
    encode_sse_chunk,
    encode_sse_event,
    encode_websocket_frames,
)
from farsteer.faces.events.socketio_compat import encode_named_event, encode_packets
from farsteer.hub.feed import SyncEvent, sync_event


def event(payload: bytes, cursor: int | None = 7) -> SyncEvent:
    return sync_event("default", "message-received", "s", payload, epoch="e1", cursor=cursor)


def texts(data: bytes) -> list[str]:
    """Decode websocket frames and return their texts."""
    reader = Protocol(Side.CLIENT, state=OPEN, max_size=None)
    reader.receive_data(data)
    found: list[str] = []
    for frame in reader.events_received():
        assert isinstance(frame, Frame)
        assert (frame.opcode, frame.fin) == (Opcode.TEXT, True)
        found.append(bytes(frame.data).decode())
    return found


@pytest.mark.parametrize("size", [0, 10, 100, 125, 126, 65_535, 65_536, 200_000])
def test_websocket_frames_are_decoded(size: int) -> None:
    events = [event(b'"%b"' % (b"x" * size)), event('"ü"'.encode()), event(b"1")]
    found = texts(encode_websocket_frames(events))
    assert [text[:10] for text in found] == ["42/events,"] * 3
    assert [json.loads(text[10:]) for text in found] == [["event", json.loads(sent.data)] for sent in events]


def test_engineio_packets_have_the_same_content_as_the_frames() -> None:
    events = [event('"ü"'.encode()), event(b'{"a":[1]}')]
    found = texts(encode_websocket_frames(events))
    assert [packet.encode() for packet in encode_packets(events)] == found
    assert [packet.encode(b64=True) for packet in encode_packets(events)] == found


def test_named_events() -> None:
    assert (
        encode_named_event("ready", b'{"cursor":"e1-7"}').encode() == '42/events,["ready",{"cursor":"e1-7"}]'
    )
    assert encode_sse_event("ready", b"{}", "e1-7") == encode_http_chunk(
        b"event: ready\nid: e1-7\ndata: {}\n\n"
    )
    assert encode_sse_event("closed", b"{}") == encode_http_chunk(b"event: closed\ndata: {}\n\n")


def test_an_sse_chunk() -> None:
    transient = event(b"2", cursor=None)
    broken = event(b'{\n"a":\r\n1}')
    body = (
        b"id: e1-7\ndata: %b\n\ndata: %b\n\n"
        % (event(b"1").data, transient.data)
        + b'id: e1-7\ndata: {"type":"message-received","namespace":"default","sessionId":"s",'
        b'"cursor":"e1-7","message":{ "a":  1}}\n\n'
    )
    assert encode_sse_chunk([event(b"1"), transient, broken]) == b"%x\r\n%b\r\n" % (len(body), body)
