"""Progress messages on stderr, so that stdout holds the report only."""

from __future__ import annotations

import sys
import time

_BEGIN = time.monotonic()


def say(line: str) -> None:
    print(f"[{time.monotonic() - _BEGIN:5.0f} s] {line}", file=sys.stderr, flush=True)
