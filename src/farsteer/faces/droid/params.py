"""What clients ask with: the parameters of each method. Unknown ones are left alone, as Droid does."""

from __future__ import annotations

from typing import Annotated, Any

from msgspec import Meta

from farsteer.core.api import MAX_TEXT
from farsteer.core.wire import WireStruct


class Dials(WireStruct):
    """How a session is to work; None leaves it as it is."""

    model_id: str | None = None
    reasoning_effort: str | None = None
    interaction_mode: str | None = None
    autonomy_level: str | None = None
    autonomy_mode: str | None = None


class Initialize(Dials):
    machine_id: str | None = None
    cwd: str | None = None
    session_id: str | None = None
    skip_permissions_unsafe: bool = False


class Load(WireStruct):
    session_id: str


class Image(WireStruct):
    data: str
    media_type: str = "image/png"
    type: str = "base64"


class File(WireStruct):
    """A text as it is, or anything else in base64."""

    data: str
    name: str = "file"
    media_type: str = "text/plain"
    type: str = "base64"


class AddMessage(WireStruct):
    text: Annotated[str, Meta(min_length=1, max_length=MAX_TEXT)]
    message_id: Annotated[str, Meta(min_length=1, max_length=200)] | None = None
    """What the client calls the message; said twice, it is the same one."""
    images: list[Image] = []
    files: list[File] = []


class Nothing(WireStruct):
    """A method without parameters."""


class Rename(WireStruct):
    title: Annotated[str, Meta(min_length=1, max_length=200)]


class Fork(WireStruct):
    title: Annotated[str, Meta(max_length=200)] | None = None


class AboutMessage(WireStruct):
    """Of the session one is in, as Droid has it, whichever is named."""

    message_id: str
    session_id: str | None = None


class RewindFile(WireStruct):
    file_path: str
    content_hash: str | None = None
    size: int | None = None
    reason: str | None = None
    """Why it cannot be brought back."""


class RewindInfo(WireStruct, omit_defaults=False):
    available_files: list[RewindFile] = []
    created_files: list[RewindFile] = []
    evicted_files: list[RewindFile] = []


class Rewind(AboutMessage):
    files_to_restore: list[RewindFile] = []
    files_to_delete: list[RewindFile] = []
    fork_title: Annotated[str, Meta(max_length=200)] | None = None


class Rewound(WireStruct, omit_defaults=False):
    new_session_id: str
    restored_count: int = 0
    deleted_count: int = 0
    failed_restore_count: int = 0
    failed_delete_count: int = 0


class Selected(WireStruct):
    """The answer to `request_permission`."""

    selected_option: str
    comment: str | None = None
    edited_spec_content: str | None = None


class Answered(WireStruct):
    index: int
    answer: str
    question: str = ""


class Replied(WireStruct):
    """The answer to `ask_user`."""

    cancelled: bool = False
    answers: list[Answered] = []


_ANY_PROVIDER = "generic-chat-completion-api"
"""Clients know Droid's providers only; this is the one that stands for all others."""


class Model(WireStruct, omit_defaults=False):
    """A model a session may use, as it is listed."""

    id: str
    display_name: str
    short_display_name: str
    model_provider: str
    supported_reasoning_efforts: list[str]
    default_reasoning_effort: str
    is_custom: bool = False

    @classmethod
    def named(cls, name: str, efforts: list[str]) -> Model:
        return cls(name, name, name, _ANY_PROVIDER, efforts, "none", is_custom=True)


Pending = dict[str, Any]
"""A request of ours that is open, as `load_session` lists it."""
