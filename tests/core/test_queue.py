import pytest

from farsteer.core.errors import Conflict, ErrorCode, NotFound
from farsteer.core.queue import MAX_QUEUED, ItemState, QueueItem, cancellable, enqueue, next_item, settle


def item(name: str) -> QueueItem:
    return QueueItem(id=name, text=f"text {name}", created_at=1)


def test_items_keep_their_order_and_the_same_id_is_the_same_item() -> None:
    queue = enqueue(enqueue(enqueue((), item("a")), item("b")), item("a"))
    assert [(i.id, i.state) for i in queue] == [("a", ItemState.QUEUED), ("b", ItemState.QUEUED)]


def test_a_full_queue_refuses_and_changes_nothing() -> None:
    queue = tuple(item(str(n)) for n in range(MAX_QUEUED))
    with pytest.raises(Conflict) as refused:
        enqueue(queue, item("late"))
    assert refused.value.code is ErrorCode.QUEUE_FULL


def test_nothing_is_next_while_a_turn_runs() -> None:
    queue = enqueue((), item("a"))
    assert next_item(queue, in_turn="turn") is None
    assert next_item(queue, in_turn=None) == queue[0]
    assert next_item((), in_turn=None) is None


def test_cancel_is_real_or_refused() -> None:
    queue = enqueue(enqueue((), item("a")), item("b"))
    assert cancellable(queue, "b", in_turn="a").id == "b"
    with pytest.raises(Conflict) as refused:
        cancellable(queue, "a", in_turn="a")
    assert refused.value.code is ErrorCode.NOT_CANCELLABLE
    with pytest.raises(NotFound):
        cancellable(queue, "gone", in_turn=None)


def test_a_settled_item_leaves_the_queue() -> None:
    queue = enqueue(enqueue((), item("a")), item("b"))
    assert [i.id for i in settle(queue, "a")] == ["b"]
    assert settle(queue, "gone") == queue


@pytest.mark.parametrize("state", list(ItemState))
def test_only_accepted_and_queued_still_wait(state: ItemState) -> None:
    assert state.final == (state not in (ItemState.ACCEPTED, ItemState.QUEUED))
