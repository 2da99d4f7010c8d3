"""`farsteer` with a probe on its event loop and a census of its objects: `python -m tests.fuzz.process FOLDER COMMAND…`

The product has no code for this.
"""

from __future__ import annotations

import gc
import json
import linecache
import sys
import threading
import time
from collections import Counter
from pathlib import Path

import psutil

from tests.support import stalls

ASKED, ANSWER = "census.asked", "census.json"
OPEN_FILES = "open files"


def main(folder: Path, command: list[str]) -> int:
    threading.Thread(target=_take_censuses, args=[folder], daemon=True).start()
    return stalls.run(folder / "stalls", command)


def _take_censuses(folder: Path) -> None:
    while True:
        if (folder / ASKED).exists():
            (folder / ASKED).unlink()
            draft = folder / f"{ANSWER}.draft"
            draft.write_text(json.dumps(_census()))
            draft.replace(folder / ANSWER)
        time.sleep(0.05)


def _census() -> dict[str, int]:
    """How many objects of each type there are, and how many entries all dicts, lists and sets have together."""
    linecache.clearcache()  # filled by the probe
    gc.collect()
    counts: Counter[str] = Counter()
    for found in gc.get_objects():
        kind = type(found)
        counts[f"{kind.__module__}.{kind.__qualname__}"] += 1
        if kind in (dict, list, set):
            counts[f"entries of {kind.__name__}"] += len(found)
    counts[OPEN_FILES] = psutil.Process().num_fds()
    return counts


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]), sys.argv[2:]))
