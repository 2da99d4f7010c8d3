"""From a cursor to live, with no gap, no double and no reordering.

The store is read page by page. What is published while a page is being read is kept as the client's tail. An event
after the last page was either committed before that page was read, then it is in it; or after, then it was published
after the reading began, for the hub publishes what it has committed, and so it is in the tail. What is in both is
told by its cursor. When the tail grew too long, or there is more to read, it is thrown away: the store has it. A client
is given the next page, or goes live, only when it is not behind.
"""

from __future__ import annotations

from farsteer.faces.events.batch import Batch
from farsteer.faces.events.subscriber import Subscriber, Tail
from farsteer.hub.store.base import Store


async def catch_up(subscriber: Subscriber, store: Store) -> None:
    """`subscriber` stands at its cursor, has a tail, and has joined the fan-out."""
    wanted = subscriber.filter
    limits = subscriber.limits
    position = subscriber.cursor
    while True:
        tail = subscriber.tail = Tail(limits.tail)
        page = await store.read_feed(
            wanted.namespace, position, session_id=wanted.session_id, types=wanted.types, limit=limits.page
        )
        position = page.next
        subscriber.forward(Batch(page.events))
        if not page.more and tail.whole and not subscriber.behind:
            break
        await subscriber.drained()
    subscriber.tail = None
    subscriber.forward(tail.batch())
