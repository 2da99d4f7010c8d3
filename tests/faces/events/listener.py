"""A subscriber that is its own road: it writes into a list, and is as slow as a test wants."""

from farsteer.core.errors import FarsteerError
from farsteer.faces.events.batch import Batch, Filter
from farsteer.faces.events.frames import websocket_frames
from farsteer.faces.events.limits import Limits
from farsteer.faces.events.subscriber import Ready, Subscriber
from farsteer.hub.feed import SyncEvent
from farsteer.hub.metrics import Metrics


class Listener(Subscriber):
    def __init__(self, wanted: Filter | None = None, limits: Limits | None = None) -> None:
        super().__init__(self, websocket_frames, wanted or Filter("default"), limits or Limits(), Metrics())
        self.batches: list[Batch] = []
        self.slow = False
        self.unsent = 0
        self.is_cut = False

    @property
    def behind(self) -> bool:
        return self.slow

    @property
    def buffered(self) -> int:
        return self.unsent

    @property
    def heard(self) -> list[SyncEvent]:
        return [event for batch in self.batches for event in batch.events]

    @property
    def cursors(self) -> list[int | None]:
        return [event.cursor for event in self.heard]

    def send(self, batch: Batch) -> None:
        self.batches.append(batch)

    def greet(self, ready: Ready) -> None:
        raise NotImplementedError

    def end(self, error: FarsteerError) -> None:
        raise NotImplementedError

    def cut(self) -> None:
        self.is_cut = True
