"""The bounded memory of recent ids."""

from farsteer.core.recent import RecentIds


def test_the_last_ids_are_remembered_and_memory_is_bounded() -> None:
    recent = RecentIds(limit=10)
    for number in range(100):
        recent.add(str(number))
        assert all(str(n) in recent for n in range(max(0, number - 9), number + 1))
    assert "0" not in recent
    assert len(recent) <= 20


def test_a_cleared_memory_is_empty() -> None:
    recent = RecentIds()
    recent.add("a")
    recent.clear()
    assert "a" not in recent
