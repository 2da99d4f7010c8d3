"""Bodies about messages."""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta

from farsteer.core.api.base import Name, Page, RequestBody, ResponseBody, Text
from farsteer.core.events import Entry
from farsteer.core.queue import Attachment, Delivery, ItemState, QueueItem


class MessagesResponse(ResponseBody):
    messages: list[Entry]
    page: Page


class NewAttachment(RequestBody):
    """A file to send with a message. `data` is its content in base64."""

    name: Name
    data: Annotated[str, Meta(extra_json_schema={"format": "byte", "contentEncoding": "base64"})]
    mime_type: Annotated[str, Meta(max_length=100)] = "application/octet-stream"

    def attachment(self, size: int) -> Attachment:
        return Attachment(name=self.name, mime_type=self.mime_type, data=self.data, size=size)


class SendMessage(RequestBody):
    text: Text
    local_id: Annotated[str, Meta(min_length=1, max_length=200)] | None = None
    attachments: Annotated[list[NewAttachment], Meta(max_length=20)] = []
    delivery: Delivery = Delivery.QUEUE


class MessageAccepted(ResponseBody):
    """A message that the hub has stored. `id` is its queue item, by which it can be waited for or cancelled."""

    id: str
    local_id: str | None
    state: ItemState
    position: int
    """The number of messages of this session that come before it."""


class ClearMessages(RequestBody):
    keep_count: Annotated[int, Meta(ge=0, le=1_000_000)] = 0


class MessagesCleared(ResponseBody):
    cleared: int
    remaining: int


class QueueResponse(ResponseBody):
    items: list[QueueItem]
