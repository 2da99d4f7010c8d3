"""Outputs of a launch as lines of text, for golden files."""

from __future__ import annotations

import json
import re
from typing import Any

import msgspec

from farsteer.agents.base import (
    ApprovalAsked,
    ApprovalWithdrawn,
    DeltaEmitted,
    EventEmitted,
    Exited,
    Output,
    Registered,
    TurnEnded,
)

_UUID = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}")
_LONG = 400


def format_output(output: Output) -> str:
    match output:
        case EventEmitted():
            fields = msgspec.to_builtins(output.event)
            return f"{fields.pop('kind')} {format_json(fields)}"
        case DeltaEmitted(delta=delta):
            text = json.dumps(delta.text, ensure_ascii=False)
            return f"… {delta.kind.value} {delta.message_id} {delta.offset} {text}"
        case ApprovalAsked(approval=approval):
            fields = msgspec.to_builtins(approval)
            del fields["createdAt"]
            return f"asked {fields.pop('kind')} {format_json(fields)}"
        case ApprovalWithdrawn():
            return f"withdrawn {output.approval_id}"
        case TurnEnded():
            return f"END {output.turn_id} {output.reason.value}" + (
                f": {output.error}" if output.error else ""
            )
        case Registered():
            return f"registered {output.native_id}"
        case Exited():
            return f"EXIT {output.exit_code} {output.reason}"
        case _:
            return f"{type(output).__name__} {format_json(msgspec.to_builtins(output))}"


def format_json(value: Any) -> str:
    """Return the value as JSON in which long texts are cut."""
    return json.dumps(_clipped(value), ensure_ascii=False)


def _clipped(value: Any) -> Any:
    if isinstance(value, str) and len(value) > _LONG:
        return value[:_LONG] + "…"
    if isinstance(value, dict):
        return {key: _clipped(one) for key, one in value.items()}
    return [_clipped(one) for one in value] if isinstance(value, list) else value


def merge_deltas(lines: list[str]) -> list[str]:
    """Merge consecutive deltas of the same message into one line."""
    merged: list[str] = []
    for line in lines:
        last = merged[-1].split(" ", 4) if merged else []
        this = line.split(" ", 4)
        if line.startswith("… ") and last[:3] == this[:3] and int(last[3]) < int(this[3]):
            text = json.dumps(json.loads(last[4]) + json.loads(this[4]), ensure_ascii=False)
            merged[-1] = " ".join((*last[:4], text))
        else:
            merged.append(line)
    return merged


def with_short_ids(lines: list[str]) -> list[str]:
    """Replace each UUID by `id` and its number."""
    names: dict[str, str] = {}
    return [
        _UUID.sub(lambda found: names.setdefault(found[0], f"id{len(names) + 1}"), line) for line in lines
    ]
