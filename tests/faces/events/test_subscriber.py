"""What a client is given when it keeps up, when it is behind, and when it is too far behind."""

from farsteer.faces.events.frames import Batch
from farsteer.faces.events.options import Limits
from farsteer.hub.feed import SyncEvent, sync_event
from tests.faces.events.recording_subscriber import RecordingSubscriber


def stored(cursor: int) -> SyncEvent:
    return sync_event("default", "message-received", "s", b"1", epoch="e1", cursor=cursor)


def delta(text: bytes = b'"d"') -> SyncEvent:
    return sync_event("default", "message-delta", "s", text, merge_key="delta:s")


def state(value: int, key: str = "users") -> SyncEvent:
    return sync_event("default", "online-users-changed", None, b"[%d]" % value, merge_key=key)


def test_a_live_client_gets_the_batch_as_it_is() -> None:
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


def test_what_it_has_already_is_left_out() -> None:
    subscriber = RecordingSubscriber()
    subscriber.cursor = 2
    subscriber.deliver(Batch([stored(1), stored(2), delta(), stored(3)]))
    assert subscriber.cursors == [None, 3]
    subscriber.deliver(Batch([stored(3)]))
    assert subscriber.cursors == [None, 3]


def test_behind_it_gets_what_is_stored_and_later_the_latest_states() -> None:
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


def test_states_come_before_what_follows_even_if_nobody_said_it_is_writable() -> None:
    subscriber = RecordingSubscriber()
    subscriber.slow = True
    subscriber.deliver(Batch([state(1)]))
    subscriber.slow = False
    subscriber.deliver(Batch([stored(1)]))
    assert subscriber.events == [state(1), stored(1)]


def test_states_that_wait_are_few() -> None:
    subscriber = RecordingSubscriber(limits=Limits(held_states=3))
    subscriber.slow = True
    for number in range(10):
        subscriber.deliver(Batch([state(number, f"key {number}")]))
    subscriber.slow = False
    subscriber.on_writable()
    assert [event.merge_key for event in subscriber.events] == ["key 7", "key 8", "key 9"]


def test_past_the_hard_limit_it_is_aborted_off() -> None:
    subscriber = RecordingSubscriber(limits=Limits(hard_limit=1000))
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
