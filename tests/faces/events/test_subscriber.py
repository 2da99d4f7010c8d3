"""What a client is sent when it keeps up, when it is behind, and when it is too far behind."""

from farsteer.faces.events.frames import Batch
from farsteer.faces.events.options import EventLimits
from farsteer.hub.feed import SyncEvent, sync_event
from tests.faces.events.recording_subscriber import RecordingSubscriber


def stored(cursor: int) -> SyncEvent:
    return sync_event("default", "message-received", "s", b"1", epoch="e1", cursor=cursor)


def delta(text: bytes = b'"d"') -> SyncEvent:
    return sync_event("default", "message-delta", "s", text, merge_key="delta:s")


def state(value: int, key: str = "users") -> SyncEvent:
    return sync_event("default", "online-users-changed", None, b"[%d]" % value, merge_key=key)


def test_a_live_client_gets_the_unchanged_batch() -> None:
    subscriber = RecordingSubscriber()
    batch = Batch([stored(1), delta(), stored(2)])
    subscriber.deliver(batch)
    assert subscriber.batches == [batch]
    assert subscriber.cursor == 2
    assert subscriber.metrics.deliveries == 3


async def test_a_client_that_catches_up_gets_nothing_live() -> None:
    subscriber = RecordingSubscriber()
    subscriber.start_catch_up(0)
    subscriber.deliver(Batch([stored(1)]))
    assert subscriber.batches == []


def test_events_up_to_the_cursor_are_left_out() -> None:
    subscriber = RecordingSubscriber()
    subscriber.cursor = 2
    subscriber.deliver(Batch([stored(1), stored(2), delta(), stored(3)]))
    assert subscriber.cursors == [None, 3]
    subscriber.deliver(Batch([stored(3)]))
    assert subscriber.cursors == [None, 3]


def test_a_client_that_is_behind_gets_stored_events_and_later_the_latest_states() -> None:
    subscriber = RecordingSubscriber()
    subscriber.slow = True
    subscriber.deliver(Batch([stored(1), delta(), state(1)]))
    subscriber.deliver(Batch([state(2), state(7, "typing"), delta()]))
    assert subscriber.cursors == [1]
    subscriber.on_writable()
    assert subscriber.cursors == [1], "still behind"
    subscriber.slow = False
    subscriber.on_writable()
    assert subscriber.events[1:] == [state(2), state(7, "typing")]
    subscriber.on_writable()
    subscriber.deliver(Batch([delta()]))
    assert subscriber.events[3:] == [delta()]


def test_held_states_are_sent_before_the_next_batch() -> None:
    subscriber = RecordingSubscriber()
    subscriber.slow = True
    subscriber.deliver(Batch([state(1)]))
    subscriber.slow = False
    subscriber.deliver(Batch([stored(1)]))
    assert subscriber.events == [state(1), stored(1)]


def test_the_number_of_held_states_is_limited() -> None:
    subscriber = RecordingSubscriber(limits=EventLimits(held_states=3))
    subscriber.slow = True
    for number in range(10):
        subscriber.deliver(Batch([state(number, f"key {number}")]))
    subscriber.slow = False
    subscriber.on_writable()
    assert [event.merge_key for event in subscriber.events] == ["key 7", "key 8", "key 9"]


def test_a_client_past_the_hard_limit_is_aborted() -> None:
    subscriber = RecordingSubscriber(limits=EventLimits(hard_limit=1000))
    subscriber.slow = True
    subscriber.unsent = 1000
    subscriber.deliver(Batch([stored(1)]))
    assert not subscriber.is_aborted
    subscriber.unsent = 1001
    subscriber.deliver(Batch([stored(2)]))
    assert subscriber.is_aborted
    assert subscriber.cursors == [1]
    assert subscriber.cursor == 1
    assert subscriber.metrics.clients_cut == 1


def test_a_batch_is_encoded_once() -> None:
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
