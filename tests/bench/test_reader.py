"""The subscribers of the benchmark count every message once, and report missing ones."""

import socket
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress

import pytest

from bench import wire
from bench.reader import Job, Step, Subscriber, Tally, read
from bench.subscribers import joined

pytestmark = pytest.mark.slow

GREETING = b"welcome"


@contextmanager
def serving(chunks: Sequence[bytes]) -> Iterator[tuple[int, threading.Event]]:
    """A server that accepts one client, sends these chunks on command and waits for the client to leave."""
    listener = socket.create_server((wire.HOST, 0))
    go = threading.Event()

    def serve() -> None:
        connection, _ = listener.accept()
        with connection:
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            connection.recv(1024)
            connection.sendall(GREETING)
            go.wait()
            # A client that has counted all it wants may leave before the last bytes.
            with suppress(ConnectionError):
                for chunk in chunks:
                    connection.sendall(chunk)
                while connection.recv(1024):
                    pass

    thread = threading.Thread(target=serve)
    thread.start()
    try:
        yield listener.getsockname()[1], go
    finally:
        go.set()
        thread.join()
        listener.close()


def job(port: int, messages: int, seconds: float = 10.0) -> Job:
    return Job(port, [Step(b"hello", GREETING)], 1, messages, seconds, latencies=True)


def stream(numbers: Sequence[int]) -> bytes:
    return b"".join(b'{"text":"%s"}' % wire.text(number).encode() for number in numbers)


def pieces(data: bytes, size: int) -> list[bytes]:
    return [data[at : at + size] for at in range(0, len(data), size)]


def seen(chunks: Sequence[bytes], messages: int, seconds: float = 10.0) -> Tally:
    with serving(chunks) as (port, go):
        asked = job(port, messages, seconds)
        subscriber = Subscriber(port, asked.steps)
        go.set()
        try:
            return read(asked, [subscriber])
        finally:
            subscriber.socket.close()


@pytest.mark.parametrize("size", [1, 29, 30, 31, 299, 5000])
def test_counts_each_message_once_however_the_stream_is_cut(size: int) -> None:
    tally = seen(pieces(stream(range(40)), size), 40)
    assert (tally.delivered, tally.wrong, tally.cut_off) == (40, 0, 0)
    assert 0 < tally.p50 <= tally.p99


@pytest.mark.parametrize("numbers", [[0, 2, 1], [0, 0, 1], [0, 2, 3]])
def test_notices_what_is_out_of_order_doubled_or_missing(numbers: list[int]) -> None:
    assert seen([stream(numbers)], 3).wrong > 0


def test_reports_what_did_not_come_before_its_deadline() -> None:
    tally = seen([stream([0])], 2, seconds=0.05)
    assert (tally.delivered, tally.wrong) == (1, 0)


def test_subscribers_are_a_process_of_their_own() -> None:
    with serving([stream(range(3))]) as (port, go), joined(job(port, 3)) as readers:
        go.set()
        assert readers.tally().delivered == 3
