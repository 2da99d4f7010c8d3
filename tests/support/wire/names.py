"""Stable names for what differs between two recordings: ids, paths, addresses, times."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Mapping
from typing import Any, cast

UUID = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}")
_PREFIXED = re.compile(r"\b(call|msg|rs|resp|fc|ctc|ws|toolu|req)_(?=[A-Za-z]*\d)[0-9A-Za-z]{8,}\b")
_SUB_AGENT = re.compile(r"\b(a)[0-9a-f]{16}\b")
"""The id of a sub-agent of Claude Code."""
_MOMENT = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d+)?(?:Z|[+-]\d\d:\d\d)")
_DAY_FOLDER = re.compile(r"/\d{4}/\d\d/\d\d/|(?<=-)\d{4}-\d\d-\d\dT\d\d-\d\d-\d\d")
_DURATION = re.compile(r"(?<=Wall time: )[\d.]+(?= seconds)|(?<=Chunk ID: )[0-9a-f]+")
_NUMBER_KEY = re.compile(r"(At|AtMs|Ms|_at|_ms|_?[Tt]imestamp|_seconds|[Dd]uration)$")
"""Names of fields with a time."""
_MOMENT_NAME = "2026-01-01T00:00:00Z"


class StableNames:
    """Replaces what differs, everywhere in a message, each thing by the same name.

    Args:
        places: Names of paths and addresses.
        dropped: Fields that are removed wherever they are.
    """

    def __init__(self, places: Mapping[str, str], dropped: frozenset[str] = frozenset()) -> None:
        self._places = sorted(places.items(), key=lambda place: -len(place[0]))
        self._dropped = dropped
        self._uuids: dict[str, str] = {}
        self._prefixed: dict[str, str] = {}
        self._counts: defaultdict[str, int] = defaultdict(int)

    def apply(self, value: Any) -> Any:
        if isinstance(value, str):
            return self._text(value)
        if isinstance(value, list):
            return [self.apply(one) for one in cast("list[Any]", value)]
        if isinstance(value, dict):
            known = cast("dict[str, Any]", value)
            return {
                self._text(key): self._field(key, one)
                for key, one in known.items()
                if key not in self._dropped
            }
        return value

    def places(self, value: Any) -> Any:
        """Replace paths and addresses only."""
        if isinstance(value, str):
            for place, name in self._places:
                value = value.replace(place, name)
            return value
        if isinstance(value, list):
            return [self.places(one) for one in cast("list[Any]", value)]
        if isinstance(value, dict):
            return {key: self.places(one) for key, one in cast("dict[str, Any]", value).items()}
        return value

    def _field(self, key: str, value: Any) -> Any:
        if isinstance(value, int | float) and not isinstance(value, bool) and _NUMBER_KEY.search(key):
            return 0
        return self.apply(value)

    def _text(self, text: str) -> str:
        text = self.places(text)
        text = UUID.sub(self._uuid, text)
        text = _SUB_AGENT.sub(self._prefixed_id, _PREFIXED.sub(self._prefixed_id, text))
        text = _DAY_FOLDER.sub(lambda found: "/DAY/" if found[0][0] == "/" else "TIME", text)
        return _DURATION.sub("0", _MOMENT.sub(_MOMENT_NAME, text))

    def _uuid(self, found: re.Match[str]) -> str:
        return self._uuids.setdefault(found[0], numbered_uuid(len(self._uuids) + 1))

    def _prefixed_id(self, found: re.Match[str]) -> str:
        if found[0] not in self._prefixed:
            self._counts[found[1]] += 1
            self._prefixed[found[0]] = f"{found[1]}_{self._counts[found[1]]}"
        return self._prefixed[found[0]]


def numbered_uuid(number: int) -> str:
    return f"00000000-0000-4000-8000-{number:012}"
