"""One message, one frame: what is written is read again, and garbage ends the link instead of the program."""

import msgspec
import pytest

from farsteer.core.capabilities import MachineInfo
from farsteer.core.commands import Send
from farsteer.core.errors import ErrorCode, ErrorRecord, TooLarge
from farsteer.core.queue import QueueItem
from farsteer.link import frames
from farsteer.link.messages import (
    PROTOCOL,
    Ack,
    Call,
    Challenge,
    EncodedEntry,
    Events,
    Hello,
    Ping,
    Pong,
    Proof,
    Refused,
    Reply,
    ToHub,
    ToRunner,
    Welcome,
)
from farsteer.link.transport import LinkClosed

MACHINE = MachineInfo(id="m", host="h", platform="linux", version="1")
ITEM = QueueItem(id="i", text="hello", created_at=1)


@pytest.mark.parametrize(
    "message",
    [
        Hello(machine=MACHINE, sessions={"s": 3}, key=b"\xff" * 32, protocol=PROTOCOL),
        Proof(signature=b"\0" * 64),
        Events(session="s", entries=[EncodedEntry(seq=1, kind="notice", body=msgspec.Raw(b'{"seq":1}'))]),
        Reply(id=7, error=ErrorRecord(code=ErrorCode.AGENT_DIED, message="gone", status=422)),
        Ping(),
    ],
    ids=lambda message: type(message).__name__,
)
def test_what_a_runner_writes_the_hub_reads(message: ToHub) -> None:
    assert frames.decode_at_hub(frames.encode_frame(message)) == message


@pytest.mark.parametrize(
    "message",
    [
        Challenge(nonce=b"\xfe" * 32),
        Welcome(acked={"s": 3}, deleted=["t"]),
        Ack(session="s", seq=4),
        Call(id=1, session="s", command=Send(item=ITEM)),
        Refused(reason="no"),
        Pong(),
    ],
    ids=lambda message: type(message).__name__,
)
def test_what_the_hub_writes_a_runner_reads(message: ToRunner) -> None:
    assert frames.decode_at_runner(frames.encode_frame(message)) == message


def test_the_protocol_is_always_said() -> None:
    """A runner of protocol 1 left it out, and the hub has to tell the two apart."""
    frame = frames.encode_frame(Hello(machine=MACHINE, sessions={}, key=b"k" * 32, protocol=PROTOCOL))
    assert msgspec.json.decode(frame)["protocol"] == PROTOCOL
    old = msgspec.json.encode({"t": "hello", "machine": msgspec.to_builtins(MACHINE), "sessions": {}})
    assert frames.decode_at_hub(old) == Hello(machine=MACHINE, sessions={}, key=b"", protocol=1)


def test_an_event_travels_as_the_bytes_it_was_encoded_to() -> None:
    body = b'{"seq":1,  "text":"\xc3\xa9"}'
    frame = frames.encode_frame(
        Events(session="s", entries=[EncodedEntry(seq=1, kind="notice", body=msgspec.Raw(body))])
    )
    assert body in frame
    read = frames.decode_at_hub(frame)
    assert isinstance(read, Events)
    assert bytes(read.entries[0].body) == body


@pytest.mark.parametrize(
    "garbage",
    [b"", b"{", b"[]", b'{"t":7}', b'{"t":"reply"}', b'{"t":"\xff"}', b"[" * 100_000],
)
def test_garbage_ends_the_link(garbage: bytes) -> None:
    with pytest.raises(LinkClosed):
        frames.decode_at_hub(garbage)


def test_deep_nesting_ends_the_link() -> None:
    deep = b"[" * 100_000 + b"]" * 100_000
    frame = b'{"t":"reply","id":1,"error":{"code":"internal","message":"","details":{"a":' + deep + b"}}}"
    with pytest.raises(LinkClosed):
        frames.decode_at_hub(frame)


def test_a_frame_the_other_end_would_refuse_is_not_sent(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(frames, "MAX_FRAME", 10)
    with pytest.raises(TooLarge):
        frames.encode_frame(Ack(session="s" * 20, seq=1))


# -- a hostile runner


DELTA = b'{"messageId":"","kind":"agent_message","text":""},'


def receive(frame: bytes) -> ToHub:
    for _ in frames.check_at_hub(frame):
        pass
    return frames.decode_at_hub(frame)


def nested(depth: int) -> bytes:
    return b"[" * depth + b"]" * depth


@pytest.mark.parametrize("depth", [200, 900, 1_000_000])
@pytest.mark.parametrize(
    "frame",
    [
        b'{"t":"reply","id":1,"result":%b}',
        b'{"t":"events","session":"s","items":[],"state":{"id":"s","agent":"a","directory":"/","meta":{"a":%b}}}',
        b'{"t":"ping","unknown":%b}',
    ],
    ids=["result", "state", "unknown"],
)
def test_deep_nesting_anywhere_ends_the_link(frame: bytes, depth: int) -> None:
    with pytest.raises(LinkClosed, match="nested"):
        receive(frame % nested(depth))
    receive(frame % nested(60))


@pytest.mark.parametrize(
    "frame",
    [
        b'{"t":"reply","id":1,"result":[%b1]}' % (b"1," * 300_000),
        b'{"t":"reply","id":1,"error":{"code":"internal","message":"","details":{%b"":1}}}' % (b'"":1,' * 300_000),
        b'{"t":"events","session":"s","items":[%b[1,"",0]]}' % (b'[1,"",0],' * 300_000),
        b'{"t":"events","session":"s","items":[],"state":{"queue":[%b0]}}' % (b"0," * 300_000),
        b'{"t":"deltas","session":"s","deltas":[%b{}]}' % (DELTA * 30_000),
        b'{"t":"hello","sessions":{%b"":1}}' % (b'"":1,' * 300_000),
    ],
    ids=["result", "details", "entries", "state", "deltas", "hello"],
)  # fmt: skip
def test_a_frame_with_too_many_values_ends_the_link(frame: bytes) -> None:
    with pytest.raises(LinkClosed, match="values"):
        receive(frame)


def test_a_frame_full_of_long_entries_is_read() -> None:
    """Tool calls with long tables: many more values than a message may have otherwise."""
    body = b'{"seq":1,"content":{"input":{"rows":[%b1]}}}' % (b"[1,2,3]," * 20_000)
    entries = [EncodedEntry(seq=number, kind="tool_call", body=msgspec.Raw(body)) for number in range(20)]
    message = Events(session="s", entries=entries)
    assert receive(frames.encode_frame(message)) == message


def test_a_long_frame_begins_with_its_type() -> None:
    with pytest.raises(LinkClosed, match="begin with its type"):
        receive(b'{"session":"s","items":[%b[1,"",0]],"t":"events"}' % (b'[1,"",0],' * 300_000))
