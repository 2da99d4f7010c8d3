"""Events of one loop tick are one write, and only to clients whose filter selects them."""

import asyncio

from farsteer.faces.events.fanout import Fanout
from farsteer.faces.events.options import EventFilter
from tests.faces.events.fake_hub import OTHER_SESSION, SESSION, FakeHub
from tests.faces.events.recording_subscriber import RecordingSubscriber


async def tick() -> None:
    await asyncio.sleep(0)
    await asyncio.sleep(0)


def started(fake: FakeHub, *subscribers: RecordingSubscriber) -> Fanout:
    fanout = Fanout(fake.feed)
    fanout.start()
    for subscriber in subscribers:
        fanout.add(subscriber)
    return fanout


async def test_what_is_published_in_one_tick_is_one_write_and_shared() -> None:
    fake = FakeHub()
    first, second = RecordingSubscriber(), RecordingSubscriber()
    started(fake, first, second)
    fake.publish(1)
    fake.publish(2, 3)
    fake.transient("x")
    assert first.batches == []
    await tick()
    assert first.cursors == [1, 2, 3, None]
    assert len(first.batches) == 1
    assert first.batches[0] is second.batches[0]
    fake.publish(4)
    await tick()
    assert len(first.batches) == 2
    assert fake.hub.feed.head("default") == 4


async def test_filters_and_namespaces_select() -> None:
    fake = FakeHub()
    all_of_one = RecordingSubscriber(EventFilter("one"))
    session = RecordingSubscriber(EventFilter("one", SESSION))
    typed = RecordingSubscriber(EventFilter("one", None, frozenset({"session-updated"})))
    both = RecordingSubscriber(EventFilter("one", OTHER_SESSION, frozenset({"session-updated"})))
    none = RecordingSubscriber(EventFilter("two"))
    subscribers = (all_of_one, session, typed, both, none)
    started(fake, *subscribers)
    fake.publish(1, namespace="one")
    fake.publish(2, namespace="one", subject=OTHER_SESSION)
    fake.publish(3, namespace="one", type="session-updated")
    fake.publish(4, namespace="one", type="session-updated", subject=OTHER_SESSION)
    fake.publish(5, namespace="three")
    await tick()
    assert [subscriber.cursors for subscriber in subscribers] == [[1, 2, 3, 4], [1, 3], [3, 4], [4], []]


async def test_a_removed_subscriber_receives_nothing_more_even_within_a_tick() -> None:
    fake = FakeHub()
    subscribers = [RecordingSubscriber() for _ in range(3)]
    fanout = started(fake, *subscribers)

    class Remover(RecordingSubscriber):
        def send(self, batch: object) -> None:
            for subscriber in subscribers[1:]:
                fanout.remove(subscriber)

    fanout.add(Remover())
    fake.publish(1)
    fanout.remove(subscribers[0])
    await tick()
    assert subscribers[0].cursors == []
    fake.publish(2)
    await tick()
    assert [subscriber.cursors for subscriber in subscribers] == [[], [1], [1]]
    fanout.remove(subscribers[0])
    assert len(fanout) == 1


async def test_a_subscriber_that_fails_is_aborted_and_the_others_miss_nothing() -> None:
    class Broken(RecordingSubscriber):
        def send(self, batch: object) -> None:
            raise RuntimeError("the handle is closed")

    fake = FakeHub()
    broken, well = Broken(), RecordingSubscriber()
    started(fake, broken, well)
    fake.publish(1)
    await tick()
    assert broken.is_aborted
    assert (well.cursors, well.is_aborted) == ([1], False)


async def test_nothing_is_delivered_after_close() -> None:
    fake = FakeHub()
    subscriber = RecordingSubscriber()
    fanout = started(fake, subscriber)
    fake.publish(1)
    fanout.close()
    fake.publish(2)
    await tick()
    assert subscriber.cursors == []
    fanout.close()
