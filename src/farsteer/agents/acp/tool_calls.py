"""Tool calls of the agent: what is known of each, and what their updates add."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from farsteer.agents.acp.protocol import ToolFields, ToolLocation
from farsteer.core.events import DiffBlock, Location, TextBlock, ToolContent, ToolStatus
from farsteer.core.modes import ToolKind
from farsteer.core.text import clean_line
from farsteer.jsonrpc.messages import as_object

_TITLE_CHARS = 500
_NAME_CHARS = 200
_MAX_CALLS = 512
"""How many tool calls are remembered. The oldest are forgotten first."""
_KINDS = {kind.value: kind for kind in ToolKind}
_STATUSES = {status.value: status for status in ToolStatus}


@dataclass(slots=True)
class KnownCall:
    """What the agent has said about a tool call so far."""

    id: str
    title: str = ""
    kind: ToolKind = ToolKind.OTHER
    name: str | None = None
    arguments: dict[str, Any] | None = None
    locations: tuple[Location, ...] = ()
    content: tuple[ToolContent, ...] = ()
    terminals: tuple[str, ...] = ()
    """Our terminals whose output it shows."""
    text: str = ""
    """The text of its content as far as it was passed on as deltas."""
    is_begun: bool = False
    """It is in the log."""
    is_running: bool = False
    is_final: bool = False
    is_left: bool = False
    """Its turn has ended without a result."""

    @property
    def paths(self) -> tuple[str, ...]:
        """The files that it is about."""
        changed = (block.path for block in self.content if isinstance(block, DiffBlock))
        return tuple(dict.fromkeys((*(location.path for location in self.locations), *changed)))

    @property
    def risk_kind(self) -> ToolKind:
        """The kind of tool that permissions go by. One that shows a change of a file is an edit, whatever it says."""
        changes = any(isinstance(block, DiffBlock) for block in self.content)
        reads = self.kind in (ToolKind.READ, ToolKind.SEARCH, ToolKind.THINK)
        return ToolKind.EDIT if changes and reads else self.kind

    @property
    def described(self) -> dict[str, Any] | None:
        """Its arguments, and the changes of files if these are not among them."""
        changes = [
            {"path": block.path, "oldText": block.old_text, "newText": block.new_text}
            for block in self.content
            if isinstance(block, DiffBlock)
        ]
        texts = [block.text for block in self.content if isinstance(block, TextBlock)]
        described = dict(self.arguments or {})
        if changes:
            described.setdefault("changes", changes)
        if not described and texts:
            described["content"] = "\n".join(texts)
        return described or None


class ToolCalls:
    """The tool calls of a launch, by their ids."""

    def __init__(self) -> None:
        self._known: dict[str, KnownCall] = {}

    @property
    def has_open(self) -> bool:
        """Whether the agent works on one."""
        return any(call.is_begun and not call.is_final and not call.is_left for call in self._known.values())

    def find(self, call_id: str) -> KnownCall | None:
        return self._known.get(call_id)

    def take(self, fields: ToolFields) -> KnownCall:
        """Add what the agent says about a tool call. What it does not mention is unchanged."""
        call = self._known.get(fields.tool_call_id)
        if call is None:
            call = self._known[fields.tool_call_id] = KnownCall(fields.tool_call_id)
            if len(self._known) > _MAX_CALLS:
                del self._known[next(iter(self._known))]
        if fields.title is not None:
            call.title = clean_line(fields.title, _TITLE_CHARS)
        if fields.kind is not None:
            call.kind = _KINDS.get(fields.kind, ToolKind.OTHER)
        if fields.name is not None:
            call.name = clean_line(fields.name, _NAME_CHARS)
        if fields.raw_input is not None:
            call.arguments = as_object(fields.raw_input) or {"input": fields.raw_input}
        if fields.locations is not None:
            call.locations = tuple(map(_location, fields.locations))
        if fields.content is not None:
            call.content, call.terminals = tool_content(fields.content)
        return call

    def end_turn(self) -> None:
        """Forget the tool calls that are over. The others may still get a result."""
        self._known = {call_id: call for call_id, call in self._known.items() if not call.is_final}
        for call in self._known.values():
            call.is_left = True


def status_of(fields: ToolFields) -> ToolStatus | None:
    """Return the status. One that we do not know is still going on."""
    if fields.status is None:
        return None
    return _STATUSES.get(fields.status, ToolStatus.IN_PROGRESS)


def tool_content(blocks: list[dict[str, Any]]) -> tuple[tuple[ToolContent, ...], tuple[str, ...]]:
    """Return texts and changes of files, and the ids of terminals."""
    content: list[ToolContent] = []
    terminals: list[str] = []
    for block in blocks:
        match block.get("type"):
            case "content":
                content.append(TextBlock(text=content_text(as_object(block.get("content")) or {})))
            case "diff" if isinstance(block.get("path"), str):
                old, new = block.get("oldText"), block.get("newText")
                content.append(
                    DiffBlock(path=block["path"], new_text=_text(new) or "", old_text=_text(old)),
                )
            case "terminal" if isinstance(block.get("terminalId"), str):
                terminals.append(block["terminalId"])
            case _:
                content.append(TextBlock(text=f"[{clean_line(str(block.get('type')), _NAME_CHARS)}]"))
    return tuple(content), tuple(terminals)


def content_text(block: dict[str, Any]) -> str:
    """Return a content block as text. What is no text is named."""
    match block.get("type"):
        case "text":
            return _text(block.get("text")) or ""
        case "resource_link":
            name, uri = _text(block.get("name")), _text(block.get("uri"))
            return f"[{name or uri}]({uri})"
        case "resource":
            resource = as_object(block.get("resource")) or {}
            return _text(resource.get("text")) or f"[{resource.get('uri')}]"
        case kind:
            return f"[{clean_line(str(kind), _NAME_CHARS)}]"


def _text(value: Any) -> str | None:
    return value if isinstance(value, str) else None


def _location(location: ToolLocation) -> Location:
    line = location.line
    return Location(path=location.path, line=line if line is None or line >= 0 else None)
