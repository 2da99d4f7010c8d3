"""What a client is given when it keeps up, when it is behind, and when it is too far behind."""

from farsteer.faces.events.batch import Batch
from farsteer.faces.events.frames import websocket_frames
from farsteer.faces.events.limits import Limits
from farsteer.faces.events.subscriber import Tail
from farsteer.hub.feed import SyncEvent, sync_event
from tests.faces.events.listener import Listener


def stored(cursor: int) -> SyncEvent:
    return sync_event("default", "message-received", "s", b"1", epoch="e1", cursor=cursor)


def delta(text: bytes = b'"d"') -> SyncEvent:
    return sync_event("default", "message-delta", "s", text, merge_key="delta:s")


def state(value: int, key: str = "users") -> SyncEvent:
    return sync_event("default", "online-users-changed", None, b"[%d]" % value, merge_key=key)


def test_a_live_client_gets_the_batch_as_it_is() -> None:
    listener = Listener()
    batch = Batch([stored(1), delta(), stored(2)])
    listener.deliver(batch)
    assert listener.batches == [batch]
    assert listener.cursor == 2
    assert listener.metrics.deliveries == 3


def test_straight_to_the_wire_only_while_the_road_is_open_and_nothing_waits() -> None:
    listener = Listener()
    written: list[bytes] = []
    listener.on_direct(written.append)
    batch = Batch([stored(1)])
    listener.deliver(batch)
    assert (written, listener.batches, listener.cursor) == ([websocket_frames([stored(1)])], [], 1)
    listener.deliver(Batch([stored(1), stored(2)]))
    assert listener.cursors == [2], "what it has already is left out"
    listener.on_direct(None)
    listener.slow = True
    listener.deliver(Batch([state(1)]))
    listener.slow = False
    listener.on_direct(written.append)
    listener.deliver(Batch([stored(3)]))
    assert listener.heard[1:] == [state(1), stored(3)], "what is held goes first"
    listener.tail = Tail(1000)
    listener.deliver(Batch([stored(4)]))
    assert len(written) == 1, "a client that catches up gets nothing live"


def test_what_it_has_already_is_left_out() -> None:
    listener = Listener()
    listener.cursor = 2
    listener.deliver(Batch([stored(1), stored(2), delta(), stored(3)]))
    assert listener.cursors == [None, 3]
    listener.deliver(Batch([stored(3)]))
    assert listener.cursors == [None, 3]


def test_behind_it_gets_what_is_stored_and_later_the_latest_states() -> None:
    listener = Listener()
    listener.slow = True
    listener.deliver(Batch([stored(1), delta(), state(1)]))
    listener.deliver(Batch([state(2), state(7, "typing"), delta()]))
    assert listener.cursors == [1]
    listener.on_writable()
    assert listener.cursors == [1], "still behind"
    listener.slow = False
    listener.on_writable()
    assert listener.heard[1:] == [state(2), state(7, "typing")]
    listener.on_writable()
    listener.deliver(Batch([delta()]))
    assert listener.heard[3:] == [delta()]


def test_states_come_before_what_follows_even_if_nobody_said_it_is_writable() -> None:
    listener = Listener()
    listener.slow = True
    listener.deliver(Batch([state(1)]))
    listener.slow = False
    listener.deliver(Batch([stored(1)]))
    assert listener.heard == [state(1), stored(1)]


def test_states_that_wait_are_few() -> None:
    listener = Listener(limits=Limits(held=3))
    listener.slow = True
    for number in range(10):
        listener.deliver(Batch([state(number, f"key {number}")]))
    listener.slow = False
    listener.on_writable()
    assert [event.merge_key for event in listener.heard] == ["key 7", "key 8", "key 9"]


def test_past_the_hard_limit_it_is_cut_off() -> None:
    listener = Listener(limits=Limits(hard=1000))
    listener.slow = True
    listener.unsent = 1000
    listener.deliver(Batch([stored(1)]))
    assert not listener.is_cut
    listener.unsent = 1001
    listener.deliver(Batch([stored(2)]))
    assert listener.is_cut
    assert listener.cursors == [1]
    assert listener.cursor == 1
    assert listener.metrics.clients_cut == 1


def test_a_batch_is_encoded_once_for_all() -> None:
    calls: list[int] = []

    def encoder(events: object) -> bytes:
        calls.append(1)
        return b"encoded"

    batch = Batch([stored(1), delta()])
    assert [batch.encoded(encoder) for _ in range(3)] == [b"encoded"] * 3
    assert batch.stored is batch.stored
    assert batch.stored.encoded(encoder) == b"encoded"
    assert len(calls) == 2
    assert batch.after(0) is batch
