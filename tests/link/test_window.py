"""How many bytes may be under way follows the speed of the link, and never stops the sender for good."""

import pytest

from farsteer.link.transport import LinkClosed
from farsteer.link.window import Window

KIB = 1024


class Link:
    """Carries bytes with a rate and a delay, and sends marks back."""

    def __init__(self, rate: float, delay: float) -> None:
        self.window = Window()
        self.now = 0.0
        self.rate = rate
        self._delay = delay
        self._free_at = 0.0
        self._marks: list[tuple[float, int]] = []
        self.waits: list[float] = []
        """How long each byte that was sent has waited for those before it."""
        self._mark()

    def run(self, size: int) -> float:
        """Send so many bytes, as fast as the window allows. Returns bytes per second."""
        begun, left = self.now, size
        while left > 0:
            if self.window.is_full:
                arrives, number = self._marks.pop(0)
                self.now = max(self.now, arrives)
                self.window.confirm(number, self.now)
                continue
            chunk = self.window.chunk
            self.window.add(chunk)
            self._free_at = max(self._free_at, self.now) + chunk / self.rate
            self.waits.append(self._free_at - self.now)
            left -= chunk
            if self.window.is_mark_due:
                self._mark()
        return size / (max(self.now, self._free_at) - begun)

    def _mark(self) -> None:
        arrives = max(self._free_at, self.now) + self._delay
        self._marks.append((arrives, self.window.mark(self.now)))


@pytest.mark.parametrize("rate", [20_000, 50_000, 200_000, 1_000_000])
def test_a_slow_link_is_never_far_behind(rate: int) -> None:
    link = Link(rate, delay=0.02)
    assert link.run(40 * rate) > 0.9 * rate
    assert max(link.waits) < max(0.8, 40 * KIB / rate)
    assert max(link.waits[-20:]) < max(0.5, 20 * KIB / rate)


@pytest.mark.parametrize("delay", [0.001, 0.1, 0.4])
def test_a_fast_link_is_used_even_if_it_is_long(delay: float) -> None:
    link = Link(50_000_000, delay)
    link.run(20_000_000)
    assert link.window.size >= 4 * 1024 * KIB
    assert link.run(100_000_000) > 0.8 * min(50_000_000, link.window.size / delay)


def test_a_link_that_becomes_slow() -> None:
    link = Link(50_000_000, 0.001)
    link.run(100_000_000)
    link.rate = 50_000
    link.run(20_000_000)
    assert link.window.size <= 16 * KIB


def test_a_mark_that_was_not_sent_ends_the_link() -> None:
    window = Window()
    with pytest.raises(LinkClosed):
        window.confirm(1, 0.0)
    first, second = window.mark(0.0), window.mark(0.0)
    with pytest.raises(LinkClosed):
        window.confirm(second, 0.0)
    window.confirm(first, 0.0)
    assert window.unread == second
