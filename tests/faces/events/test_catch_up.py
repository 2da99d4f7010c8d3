"""Whatever happens while a client catches up: no gap, no duplicate, no reordering."""

import asyncio

from hypothesis import given, settings
from hypothesis import strategies as st

from farsteer.faces.events.fanout import Fanout
from farsteer.faces.events.options import EventFilter, EventLimits
from farsteer.hub.feed import SyncEvent
from tests.faces.events.fake_hub import OTHER_SESSION, SESSION, FakeHub
from tests.faces.events.recording_subscriber import RecordingSubscriber

ACTIONS = st.lists(
    st.sampled_from(["commit", "publish", "both", "foreign", "tick", "slow", "fast"]), max_size=6
)


class HubActions:
    """Commits and then publishes in order, as a hub does, at moments that hypothesis chooses."""

    def __init__(self, fake: FakeHub, subscriber: RecordingSubscriber) -> None:
        self.fake = fake
        self.subscriber = subscriber
        self.committed: list[SyncEvent] = []

    def act(self, actions: list[str]) -> None:
        for action in actions:
            match action:
                case "commit":
                    self.committed += self.fake.commit("x" * 20)
                case "foreign":
                    self.committed += self.fake.commit("y" * 20, subject=OTHER_SESSION)
                case "both":
                    self.committed += self.fake.commit(1, 2)
                    self.publish()
                case "publish":
                    self.publish()
                case "slow":
                    self.subscriber.slow = True
                case "fast":
                    self.subscriber.slow = False
                    self.subscriber.on_writable()

    def publish(self) -> None:
        if self.committed:
            self.fake.feed.publish(self.committed)
            self.committed = []


@settings(max_examples=150, deadline=None)
@given(
    start=st.integers(0, 12),
    past=st.integers(0, 12),
    page=st.integers(1, 4),
    buffer=st.sampled_from([0, 150, 1000]),
    filtered=st.booleans(),
    moments=st.lists(st.tuples(ACTIONS, ACTIONS), max_size=8),
    rest=ACTIONS,
)
def test_any_sequence_of_commits_and_publications(
    start: int,
    past: int,
    page: int,
    buffer: int,
    filtered: bool,
    moments: list[tuple[list[str], list[str]]],
    rest: list[str],
) -> None:
    async def run() -> None:
        fake = FakeHub()
        fake.commit(*range(past))
        position = min(start, past)
        event_filter = EventFilter("default", SESSION if filtered else None)
        subscriber = RecordingSubscriber(event_filter, EventLimits(page_size=page, catch_up_buffer=buffer))
        hub_actions = HubActions(fake, subscriber)
        fanout = Fanout(fake.feed)
        fanout.start()
        subscriber.start_catch_up(position)
        fanout.add(subscriber)
        reads = iter(moments)
        after: list[str] = []

        def before_read() -> None:
            nonlocal after
            before, after = next(reads, ([], ["fast"]))
            hub_actions.act(before)

        fake.store.before_read = before_read
        fake.store.after_read = lambda: hub_actions.act(after)
        catching = asyncio.create_task(subscriber.catch_up(fake.hub.store))
        async with asyncio.timeout(5):
            while not catching.done():
                await asyncio.sleep(0)
                if subscriber.slow:
                    hub_actions.act(["fast"])
            await catching
        hub_actions.act(["fast", *rest, "publish", "fast"])
        for _ in range(3):
            await asyncio.sleep(0)
        expected = [
            row.cursor
            for row in fake.store.rows
            if (row.cursor or 0) > position and (not filtered or row.subject == SESSION)
        ]
        assert subscriber.cursors == expected

    asyncio.run(run())


async def test_a_buffer_that_overflowed_is_read_from_the_store() -> None:
    fake = FakeHub()
    subscriber = RecordingSubscriber(limits=EventLimits(catch_up_buffer=1000))
    fanout = Fanout(fake.feed)
    fanout.start()
    fanout.add(subscriber)
    subscriber.start_catch_up(0)
    floods = iter([100, 100])
    fake.store.before_read = lambda: fake.publish(*range(next(floods, 0)))
    await subscriber.catch_up(fake.hub.store)
    assert fake.store.reads == 3
    assert subscriber.cursors == list(range(1, 201))
    fake.publish(200)
    await asyncio.sleep(0)
    assert subscriber.cursors[-1] == 201, "live"
