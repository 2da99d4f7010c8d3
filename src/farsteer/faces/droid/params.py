"""The parameters of each method, the answers a client gives, and models.

As with Droid, unknown fields are ignored, except in settings: versions before 0.215 refuse them.
"""

from __future__ import annotations

from typing import Annotated, Any

from msgspec import Meta

from farsteer.core import droid
from farsteer.core.api import MAX_TEXT
from farsteer.core.droid import RewindFile
from farsteer.core.errors import BadRequest
from farsteer.core.modes import PermissionMode, ReasoningEffort
from farsteer.core.wire import WireStruct


class NoParams(WireStruct):
    """A method without parameters."""


class SettingsParams(WireStruct):
    """How a session shall work. None leaves a setting as it is."""

    model_id: str | None = None
    reasoning_effort: str | None = None
    interaction_mode: str | None = None
    autonomy_level: str | None = None
    autonomy_mode: str | None = None

    def requested_mode(self, current: PermissionMode | None = None) -> PermissionMode | None:
        """Return the permission mode the client asks for, None if it asks for none.

        Raises:
            BadRequest: The interaction mode or the level is unknown.
        """
        if self.interaction_mode not in (None, droid.AUTO, droid.SPEC):
            raise BadRequest(f"unknown interaction mode {self.interaction_mode!r}")
        mode = droid.permission_mode(self.interaction_mode, self.autonomy_level, self.autonomy_mode)
        level = self.autonomy_level or self.autonomy_mode
        if mode is None and level is not None:
            raise BadRequest(
                f"unknown autonomy level {level!r}; expected one of {', '.join(droid.AUTONOMY_LEVELS)}"
            )
        leaves_spec = self.interaction_mode == droid.AUTO and current is PermissionMode.PLAN
        return PermissionMode.DEFAULT if mode is None and leaves_spec else mode

    def requested_effort(self) -> ReasoningEffort | None:
        """Return the effort the client asks for, None if it asks for none or for the model's default.

        Raises:
            BadRequest: The effort is unknown.
        """
        name = self.reasoning_effort
        if name is None:
            return None
        if name not in droid.EFFORT_BY_NAME:
            raise BadRequest(
                f"unknown reasoning effort {name!r}; expected one of {', '.join(droid.EFFORT_BY_NAME)}"
            )
        return droid.EFFORT_BY_NAME[name]

    def uses_levels(self) -> bool | None:
        """Whether the client uses the current names of autonomy levels; None if these parameters do not tell."""
        if self.interaction_mode is not None or self.autonomy_level in droid.AUTONOMY_LEVELS:
            return True
        return None if self.autonomy_level is None else False


class StrictSettingsParams(SettingsParams, forbid_unknown_fields=True):
    """The settings that Droid has. Those below are accepted and have no effect."""

    session_id: Any = None
    spec_mode_model_id: Any = None
    spec_mode_reasoning_effort: Any = None
    enabled_tool_ids: Any = None
    disabled_tool_ids: Any = None
    additional_tool_ids: Any = None
    restrict_tool_ids: Any = None
    tags: Any = None
    compaction_token_limit: Any = None
    compaction_threshold_check_enabled: Any = None


class InitializeParams(SettingsParams):
    machine_id: str | None = None
    cwd: str | None = None
    session_id: str | None = None
    skip_permissions_unsafe: bool = False


class LoadParams(WireStruct):
    session_id: str


class ImageParam(WireStruct):
    data: str
    media_type: str = "image/png"
    type: str = "base64"


class FileParam(WireStruct):
    """`data` is plain text if `type` is `text`, otherwise base64."""

    data: str
    name: str = "file"
    media_type: str = "text/plain"
    type: str = "base64"


class AddMessageParams(WireStruct):
    text: Annotated[str, Meta(min_length=1, max_length=MAX_TEXT)]
    message_id: Annotated[str, Meta(min_length=1, max_length=200)] | None = None
    """The client's id of the message. A message that is sent twice with the same id is accepted once."""
    images: list[ImageParam] = []
    files: list[FileParam] = []


class RenameParams(WireStruct):
    title: Annotated[str, Meta(min_length=1, max_length=200)]


class ForkParams(WireStruct):
    title: Annotated[str, Meta(max_length=200)] | None = None


class RewindInfoParams(WireStruct):
    """As with Droid, the current session is meant whatever `session_id` says."""

    message_id: str
    session_id: str | None = None


class RewindParams(RewindInfoParams):
    files_to_restore: list[RewindFile] = []
    files_to_delete: list[RewindFile] = []
    fork_title: Annotated[str, Meta(max_length=200)] | None = None


# -- answers


class PermissionAnswer(WireStruct):
    """The result of `droid.request_permission`."""

    selected_option: str
    comment: str | None = None
    edited_spec_content: str | None = None


class QuestionAnswer(WireStruct):
    index: int
    answer: str
    question: str = ""


class QuestionnaireAnswer(WireStruct):
    """The result of `droid.ask_user`."""

    cancelled: bool = False
    answers: list[QuestionAnswer] = []


# -- results

_GENERIC_PROVIDER = "generic-chat-completion-api"
"""Clients accept only Droid's own provider names; this one stands for all others."""


class ModelInfo(WireStruct, omit_defaults=False):
    id: str
    display_name: str
    short_display_name: str
    model_provider: str
    supported_reasoning_efforts: tuple[str, ...]
    default_reasoning_effort: str
    is_custom: bool = False

    @classmethod
    def named(cls, name: str, efforts: tuple[str, ...] = droid.REASONING_EFFORTS) -> ModelInfo:
        return cls(name, name, name, _GENERIC_PROVIDER, efforts, droid.NO_EFFORT, is_custom=True)
