"""One tick, one write: and only to those of the namespace who asked for it."""

import asyncio

from farsteer.faces.events.batch import Filter
from farsteer.faces.events.fanout import Fanout
from tests.faces.events.fake_hub import OTHER_SESSION, SESSION, FakeHub
from tests.faces.events.listener import Listener


async def tick() -> None:
    await asyncio.sleep(0)
    await asyncio.sleep(0)


def started(fake: FakeHub, *listeners: Listener) -> Fanout:
    fanout = Fanout(fake.feed)
    fanout.start()
    for listener in listeners:
        fanout.join(listener)
    return fanout


async def test_what_is_published_in_one_tick_is_one_write_and_shared() -> None:
    fake = FakeHub()
    first, second = Listener(), Listener()
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


async def test_filters_and_namespaces_choose() -> None:
    fake = FakeHub()
    all_of_one = Listener(Filter("one"))
    session = Listener(Filter("one", SESSION))
    typed = Listener(Filter("one", None, frozenset({"session-updated"})))
    both = Listener(Filter("one", OTHER_SESSION, frozenset({"session-updated"})))
    none = Listener(Filter("two"))
    listeners = (all_of_one, session, typed, both, none)
    started(fake, *listeners)
    fake.publish(1, namespace="one")
    fake.publish(2, namespace="one", subject=OTHER_SESSION)
    fake.publish(3, namespace="one", type="session-updated")
    fake.publish(4, namespace="one", type="session-updated", subject=OTHER_SESSION)
    fake.publish(5, namespace="three")
    await tick()
    assert [listener.cursors for listener in listeners] == [[1, 2, 3, 4], [1, 3], [3, 4], [4], []]


async def test_who_leaves_hears_no_more_also_in_the_middle_of_a_tick() -> None:
    fake = FakeHub()
    listeners = [Listener() for _ in range(3)]
    fanout = started(fake, *listeners)

    class Leaver(Listener):
        def send(self, batch: object) -> None:
            for listener in listeners[1:]:
                fanout.leave(listener)

    fanout.join(Leaver())
    fake.publish(1)
    fanout.leave(listeners[0])
    await tick()
    assert listeners[0].cursors == []
    fake.publish(2)
    await tick()
    assert [listener.cursors for listener in listeners] == [[], [1], [1]]
    fanout.leave(listeners[0])
    assert len(fanout) == 1


async def test_a_client_that_cannot_be_written_to_is_cut_off_and_the_others_miss_nothing() -> None:
    class Broken(Listener):
        def send(self, batch: object) -> None:
            raise RuntimeError("the handle is closed")

    fake = FakeHub()
    broken, well = Broken(), Listener()
    started(fake, broken, well)
    fake.publish(1)
    await tick()
    assert broken.is_cut
    assert (well.cursors, well.is_cut) == ([1], False)


async def test_closed_it_is_silent() -> None:
    fake = FakeHub()
    listener = Listener()
    fanout = started(fake, listener)
    fake.publish(1)
    fanout.close()
    fake.publish(2)
    await tick()
    assert listener.cursors == []
    fanout.close()
