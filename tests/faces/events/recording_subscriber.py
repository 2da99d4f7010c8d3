"""A subscriber that records what it is sent, and is as slow as a test wants."""

from farsteer.core.errors import FarsteerError
from farsteer.core.live_events import ReadyEvent
from farsteer.faces.events.frames import Batch
from farsteer.faces.events.options import EventFilter, EventLimits
from farsteer.faces.events.subscriber import Subscriber
from farsteer.hub.feed import SyncEvent
from farsteer.hub.metrics import Metrics
from farsteer.hub.settings import Limits
from farsteer.hub.sockets import SlowReaders


class RecordingSubscriber(Subscriber):
    def __init__(
        self,
        event_filter: EventFilter | None = None,
        limits: EventLimits | None = None,
        slow_readers: SlowReaders | None = None,
    ) -> None:
        metrics = Metrics()
        super().__init__(
            event_filter or EventFilter("default"),
            limits or EventLimits(),
            metrics,
            slow_readers or SlowReaders(Limits(), metrics),
        )
        self.batches: list[Batch] = []
        self.slow = False
        self.unsent = 0
        self.is_aborted = False

    @property
    def is_behind(self) -> bool:
        return self.slow

    @property
    def buffered_bytes(self) -> int:
        return self.unsent

    @property
    def events(self) -> list[SyncEvent]:
        return [event for batch in self.batches for event in batch.events]

    @property
    def cursors(self) -> list[int | None]:
        return [event.cursor for event in self.events]

    def send(self, batch: Batch) -> None:
        self.batches.append(batch)

    def send_ready(self, ready: ReadyEvent) -> None:
        raise NotImplementedError

    def close(self, error: FarsteerError) -> None:
        raise NotImplementedError

    def abort(self) -> None:
        self.is_aborted = True
