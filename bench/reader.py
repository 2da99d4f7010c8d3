"""The subscribers: one process with many sockets and very little work for each delivery.

It is the same for every peer. It reads a `Job` as one line from stdin, prints `ready` once every subscriber is
connected, and prints a `Tally` as JSON when all messages have arrived or the deadline has passed.
"""

from __future__ import annotations

import selectors
import socket
import sys
import time

import msgspec

from bench import measure, wire

CHUNK = 1 << 20
MOST = 8 << 20
"""Bytes read before they are counted."""


class Step(msgspec.Struct):
    """Send, then read until these bytes arrive."""

    send: bytes
    expect: bytes


class Job(msgspec.Struct):
    port: int
    steps: list[Step]
    subscribers: int
    messages: int
    seconds: float
    latencies: bool
    """Look at every message's time of birth (paced runs only: it costs more)."""


class Tally(msgspec.Struct):
    delivered: int
    wrong: int
    """Deliveries out of order, doubled or missing in between."""
    last: int
    """When the last delivery came, in nanoseconds of the wall clock."""
    received: int
    """Bytes."""
    cut_off: int
    """Subscribers the server disconnected."""
    p50: float = 0.0
    """Milliseconds."""
    p99: float = 0.0


class Subscriber:
    __slots__ = ("position", "socket", "tail")

    def __init__(self, port: int, steps: list[Step]) -> None:
        self.socket = socket.create_connection((wire.HOST, port), timeout=20.0)
        self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, CHUNK)
        self.position = 0
        self.tail = b""
        for step in steps:
            self.socket.sendall(step.send)
            answer = b""
            while step.expect not in answer:
                chunk = self.socket.recv(CHUNK)
                if not chunk:
                    raise ConnectionError(f"closed while joining: {answer[-500:]!r}")
                answer += chunk
        self.socket.setblocking(False)


_buffer = memoryview(bytearray(CHUNK))
"""One buffer for all sockets. A new one for each delivery would cost more than everything else."""


def heard(selector: selectors.BaseSelector, seconds: float) -> list[tuple[Subscriber, bytes, int]]:
    """Yield received bytes with the time of arrival; b"" at the end of a stream.

    All sockets are read before anything is counted, so that counting delays no other reading.
    """
    arrived: list[tuple[Subscriber, bytes, int]] = []
    size = 0
    while size < MOST and (ready := selector.select(0 if arrived else seconds)):
        for key, _ in ready:
            try:
                chunk = bytes(_buffer[: key.data.socket.recv_into(_buffer)])
            except ConnectionError:
                chunk = b""
            arrived.append((key.data, chunk, time.time_ns()))
            size += len(chunk)
            if not chunk:
                selector.unregister(key.fileobj)
    return arrived


def read(job: Job, subscribers: list[Subscriber]) -> Tally:
    numbers = [b"%08d" % number for number in range(job.messages)]
    latencies: list[int] = []
    tally = Tally(delivered=0, wrong=0, last=time.time_ns(), received=0, cut_off=0)
    find = wire.MARK.findall
    keep = wire.MARK_BYTES - 1
    waiting = len(subscribers)
    deadline = time.monotonic() + job.seconds
    with selectors.DefaultSelector() as selector:
        for subscriber in subscribers:
            selector.register(subscriber.socket, selectors.EVENT_READ, subscriber)
        while waiting and (left := deadline - time.monotonic()) > 0:
            for subscriber, chunk, now in heard(selector, left):
                if not chunk:
                    tally.cut_off += 1
                    waiting -= subscriber.position < job.messages
                    continue
                tally.received += len(chunk)
                data = subscriber.tail + chunk
                # Marks have one length: what is shorter can hold no whole one, so none is seen twice.
                subscriber.tail = data[-keep:]
                if wire.EIO_PING in data:
                    subscriber.socket.send(wire.frame(b"3"))
                    subscriber.tail = subscriber.tail.replace(wire.EIO_PING, b"")
                marks = find(data)
                if not marks:
                    continue
                tally.last = now
                tally.delivered += len(marks)
                before = subscriber.position
                subscriber.position += len(marks)
                found = [mark[0] for mark in marks]
                if found != numbers[before : subscriber.position]:
                    expected = numbers[before : subscriber.position]
                    pairs = zip(found, expected, strict=False)
                    tally.wrong += sum(a != b for a, b in pairs) + len(found) - len(expected)
                if job.latencies:
                    latencies += [now - int(mark[1]) for mark in marks]
                if before < job.messages <= subscriber.position:
                    waiting -= 1
    if latencies:
        tally.p50 = measure.percentile(latencies, 0.5) / 1e6
        tally.p99 = measure.percentile(latencies, 0.99) / 1e6
    return tally


def main() -> None:
    job = msgspec.json.decode(sys.stdin.buffer.readline(), type=Job)
    subscribers = [Subscriber(job.port, job.steps) for _ in range(job.subscribers)]
    print("ready", flush=True)
    print(msgspec.json.encode(read(job, subscribers)).decode(), flush=True)


if __name__ == "__main__":
    main()
