import msgspec
import pytest

from farsteer.core.errors import Conflict, ErrorCode, NotFound
from farsteer.core.queue import (
    MAX_QUEUED,
    Delivery,
    ItemState,
    QueueItem,
    QueueRef,
    enqueue,
    find_waiting,
    mark_handed_over,
    mark_queued,
    move_to_front,
    next_item,
    remove,
)


def item(name: str) -> QueueItem:
    return QueueItem(id=name, text=f"text {name}", created_at=1)


def test_items_keep_their_order_and_the_same_id_is_the_same_item() -> None:
    queue = enqueue(enqueue(enqueue((), item("a")), item("b")), item("a"))
    assert [(i.id, i.state) for i in queue] == [("a", ItemState.QUEUED), ("b", ItemState.QUEUED)]


def test_a_full_queue_refuses_and_changes_nothing() -> None:
    queue = tuple(QueueRef(str(n)) for n in range(MAX_QUEUED))
    with pytest.raises(Conflict) as refused:
        enqueue(queue, item("late"))
    assert refused.value.code is ErrorCode.QUEUE_FULL


def test_the_first_that_waits_is_next() -> None:
    queue = enqueue(enqueue((), item("a")), item("b"))
    assert next_item(queue) == queue[0]
    assert next_item(mark_handed_over(queue, "a")) == queue[1]
    assert next_item(()) is None


def test_cancel_is_real_or_refused() -> None:
    queue = mark_handed_over(enqueue(enqueue((), item("a")), item("b")), "a")
    assert find_waiting(queue, "b").id == "b"
    with pytest.raises(Conflict) as refused:
        find_waiting(queue, "a")
    assert refused.value.code is ErrorCode.NOT_CANCELLABLE
    with pytest.raises(NotFound):
        find_waiting(queue, "gone")
    assert find_waiting(mark_queued(queue, "a"), "a").state is ItemState.QUEUED


def test_what_is_urgent_goes_first_but_never_before_what_the_agent_has() -> None:
    queue = mark_handed_over(enqueue(enqueue((), item("a")), item("b")), "a")
    urgent = msgspec.structs.replace(item("c"), delivery=Delivery.NOW)
    assert [i.id for i in enqueue(queue, urgent)] == ["a", "c", "b"]
    assert [i.id for i in move_to_front(enqueue(queue, item("d")), "d")] == ["a", "d", "b"]


def test_a_settled_item_leaves_the_queue() -> None:
    queue = enqueue(enqueue((), item("a")), item("b"))
    assert [i.id for i in remove(queue, "a")] == ["b"]
    assert remove(queue, "gone") == queue


@pytest.mark.parametrize("state", list(ItemState))
def test_an_item_waits_until_it_has_its_outcome(state: ItemState) -> None:
    assert state.final == (state not in (ItemState.ACCEPTED, ItemState.QUEUED, ItemState.HANDED_OVER))
