"""Whether a path lies in the directories of a session."""

from __future__ import annotations

import os
from collections.abc import Iterable


def is_inside(path: str, roots: Iterable[str]) -> bool:
    """Whether an absolute path leads, through links too, to a place below one of the roots."""
    if not os.path.isabs(path):
        return False
    try:
        real = os.path.realpath(path)
    except ValueError:
        return False  # No file has a name with a null character.
    return any(os.path.commonpath((real, root)) == root for root in map(os.path.realpath, roots))
