"""Codex's own files of a conversation: `sessions/YYYY/MM/DD/rollout-TIME-ID.jsonl` in its home.

Each line is a record with what has happened. Codex appends to the file while it works, in its terminal interface too,
so that the records can be followed one by one. A conversation that was reverted or forked continues in another file,
whose first record names the one it is based on; Codex itself puts them together, see `store`.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any, cast
from urllib.parse import unquote, urlsplit

import msgspec

from farsteer.agents.codex import items, protocol
from farsteer.core.events import SessionEvent, TurnEnd, TurnEndReason, TurnStart, UsageUpdate
from farsteer.core.wire import decode_with
from farsteer.jsonrpc.messages import as_object

_FOLDERS = ("sessions/*/*/*", "archived_sessions")


def exists(home: Path, thread_id: str) -> bool:
    """Whether Codex has stored this thread. It does so with the first message. `thread_id` must be a UUID."""
    return newest(home, thread_id) is not None


def newest(home: Path, thread_id: str) -> Path | None:
    """Return the file that Codex appends to. `thread_id` must be a UUID."""
    found: list[tuple[int, Path]] = []
    for folder in _FOLDERS:
        for path in home.glob(f"{folder}/rollout-*-{thread_id}*.jsonl"):
            with suppress(OSError):  # Codex may have archived it meanwhile.
                status = path.stat()
                if status.st_size > 0:
                    found.append((status.st_mtime_ns, path))
    return max(found, default=(0, None))[1]


class Meta(msgspec.Struct):
    """The first record of a file."""

    id: str
    cwd: str = ""
    originator: str = ""
    cli_version: str = ""


class _Usage(msgspec.Struct):
    input_tokens: int = 0
    cached_input_tokens: int = 0
    cache_write_input_tokens: int = 0
    output_tokens: int = 0


class _Error(msgspec.Struct):
    message: str = ""
    codex_error_info: Any = None


class _Payload(msgspec.Struct):
    type: str | None = None
    turn_id: str = ""
    item: dict[str, Any] | None = None
    error: _Error | None = None
    usage: _Usage | None = None


class _Record(msgspec.Struct):
    type: str
    payload: msgspec.Raw = msgspec.Raw(b"null")


_record_decoder = msgspec.json.Decoder(_Record)
_payload_decoder = msgspec.json.Decoder(_Payload)
_meta_decoder = msgspec.json.Decoder(Meta)


def read_meta(line: bytes) -> Meta | None:
    """Return the content of the first record, None if it is another one."""
    try:
        record = decode_with(_record_decoder, line)
        return decode_with(_meta_decoder, bytes(record.payload)) if record.type == "session_meta" else None
    except msgspec.DecodeError:
        return None


def read_record(line: bytes) -> list[SessionEvent]:
    """Return a record as events, with the beginning and the end of each turn.

    Most records repeat others in the form that the model sees, and give no event. A line that is not a record, such as
    the incomplete last one of a file, gives none either.
    """
    try:
        record = decode_with(_record_decoder, line)
        if record.type not in ("event_msg", "token_usage_record"):
            return []
        payload = decode_with(_payload_decoder, bytes(record.payload))
    except msgspec.DecodeError:
        return []
    if record.type == "token_usage_record":
        return [_usage(payload.usage)] if payload.usage is not None else []
    match payload.type:
        case "item_completed":
            item = _item(payload.item or {})
            return [] if item is None else items.stored_events(item, payload.turn_id)
        case "task_started":
            return [TurnStart(turn_id=payload.turn_id)]
        case "task_complete":
            if payload.error is None:
                return [TurnEnd(turn_id=payload.turn_id, reason=TurnEndReason.END_TURN)]
            return [
                TurnEnd(turn_id=payload.turn_id, reason=TurnEndReason.FAILED, error=payload.error.message)
            ]
        case "turn_aborted":
            return [TurnEnd(turn_id=payload.turn_id, reason=TurnEndReason.CANCELLED)]
        case _:
            return []


def _usage(usage: _Usage) -> UsageUpdate:
    return UsageUpdate(
        input_tokens=max(usage.input_tokens - usage.cached_input_tokens, 0), output_tokens=usage.output_tokens,
        cache_read_tokens=usage.cached_input_tokens, cache_write_tokens=usage.cache_write_input_tokens,
    )  # fmt: skip


# -- items, which have other names here than in the app-server's protocol


def _item(stored: dict[str, Any]) -> protocol.Item | None:
    kind = str(stored.get("type") or "?")
    given = {_camel_case(name): value for name, value in stored.items()}
    match kind:
        case "AgentMessage":
            given["text"] = "".join(str(block.get("text") or "") for block in _objects(stored.get("content")))
        case "Reasoning":
            given |= {"summary": stored.get("summary_text"), "content": stored.get("raw_content")}
        case "CommandExecution":
            given |= {
                "command": _command(stored.get("command")), "cwd": _path(stored.get("cwd")),
                "commandActions": [*_objects(stored.get("parsed_cmd"))],
            }  # fmt: skip
        case "FileChange":
            given["changes"] = [*_changes(stored.get("changes"))]
        case _:
            pass
    given["type"] = kind[0].lower() + kind[1:]
    try:
        return msgspec.convert(given, cast("type[protocol.Item]", protocol.Item))
    except msgspec.ValidationError:
        return None


def _camel_case(name: str) -> str:
    first, *rest = name.split("_")
    return first + "".join(map(str.title, rest))


def _objects(value: Any) -> Iterator[dict[str, Any]]:
    for one in cast("list[Any]", value) if isinstance(value, list) else []:
        found = as_object(one)
        if found is not None:
            yield found


def _command(value: Any) -> str:
    """Return the command of a shell, or the words of another one."""
    words = (
        [str(word) for word in cast("list[Any]", value)] if isinstance(value, list) else [str(value or "")]
    )
    return words[2] if len(words) == 3 and words[1] in ("-c", "-lc") else " ".join(words)


def _path(value: Any) -> str:
    text = str(value or "")
    return unquote(urlsplit(text).path) if text.startswith("file://") else text


def _changes(value: Any) -> Iterator[dict[str, Any]]:
    for path, change in (as_object(value) or {}).items():
        known = as_object(change) or {}
        diff = known.get("content") if "content" in known else known.get("unified_diff")
        kind = {"type": known.get("type"), "move_path": known.get("move_path")}
        yield {"path": path, "kind": kind, "diff": str(diff or "")}
