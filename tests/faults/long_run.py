"""The long run: `python -m tests.faults.long_run --kills 10000 --seed 7 --jobs 4`, or `make kills KILLS=10000 SEED=7`.

Several deployments run side by side, each for a part of the kills, then a new one. In some parts the database of the
hub or of the runner is also set back to an earlier copy, or hub and runner begin as the last release and are updated
one after the other; `--kind older-hub` makes all parts such ones. A broken promise ends its part; its
files are kept. Prints a summary, and exits with 1 if a promise was broken.
"""

from __future__ import annotations

import argparse
import asyncio
import functools
import multiprocessing
import os
import shutil
import sys
import tempfile
import time
import traceback
from collections.abc import Sequence
from contextlib import redirect_stdout
from pathlib import Path
from typing import Literal, NamedTuple, get_args

from tests.faults.deployment import Name
from tests.faults.run import Summary, run_kills
from tests.skew.releases import RELEASES, SourceMissing, extract
from tests.support.ports import free_port

Kind = Literal["kills", "older-hub", "older-runner", "update"]
KINDS: tuple[Kind, ...] = get_args(Kind)
DEFAULT_KINDS: tuple[Kind, ...] = ("kills", "kills", "kills", "older-runner", "update")
OLDER: dict[Kind, Name] = {"older-hub": "hub", "older-runner": "runner"}
PART = 100
"""Kills of one deployment, so that its logs stay short."""


class Part(NamedTuple):
    folder: Path
    seed: int
    number: int
    kills: int
    kind: Kind
    release: Path | None
    """The source of the last release."""


def _run_part(task: Part) -> Summary:
    folder, seed, part, kills, kind, release = task
    run = functools.partial(run_kills, older=OLDER.get(kind), release=release if kind == "update" else None)
    root = folder / f"part{part}"
    root.mkdir()
    with (folder / f"part{part}.log").open("w") as log, redirect_stdout(log):
        try:
            summary = asyncio.run(run(root, free_port(), seed, part, kills))
        except BaseException:
            text = traceback.format_exc()
            print(text, flush=True)
            return Summary(
                violations=[f"--seed {seed}, part {part} ({kind}), files in {root}:\n{text[-2000:]}"]
            )
    shutil.rmtree(root)
    return summary


def _extract_release(folder: Path) -> Path | None:
    try:
        return extract(RELEASES[-1], folder)
    except SourceMissing as missing:
        print(f"no updates: {missing}")
        return None


def _name_worker(numbers: multiprocessing.Queue[int]) -> None:
    # The ports of each worker are its own, as those of a worker of pytest.
    os.environ["PYTEST_XDIST_WORKER"] = f"gw{numbers.get()}"


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.faults.long_run", description=__doc__)
    parser.add_argument("--kills", type=int, default=10_000)
    parser.add_argument("--seed", type=int, default=20261116)
    parser.add_argument("--jobs", type=int, default=2 * (os.cpu_count() or 1))
    parser.add_argument(
        "--kind",
        choices=KINDS,
        action="append",
        help="only such parts: a database is set back, or one is updated",
    )
    arguments = parser.parse_args()
    folder = Path(tempfile.mkdtemp(prefix="farsteer-kills-"))
    sizes = [PART] * (arguments.kills // PART) + [arguments.kills % PART] * bool(arguments.kills % PART)
    kinds: Sequence[Kind] = arguments.kind or DEFAULT_KINDS
    release = _extract_release(folder) if "update" in kinds else None
    tasks = [
        Part(folder, arguments.seed, number, kills, kinds[number % len(kinds)], release)
        for number, kills in enumerate(sizes)
    ]
    started, total = time.monotonic(), Summary()
    spawn = multiprocessing.get_context("spawn")
    numbers = spawn.Queue()
    for number in range(arguments.jobs):
        numbers.put(number)
    with spawn.Pool(arguments.jobs, _name_worker, (numbers,)) as pool:
        for summary in pool.imap_unordered(_run_part, tasks):
            total.add(summary)
            print(
                f"{time.monotonic() - started:6.0f} s: {total.kills.total()} kills, {total.outcomes.total()} messages,"
                f" {len(total.violations)} violations",
                *summary.violations,
                flush=True,
            )
    total.seconds = time.monotonic() - started
    print(f"seed        {arguments.seed}, {', '.join(dict.fromkeys(kinds))}")
    print(total.describe())
    if not total.violations:
        shutil.rmtree(folder)
    return bool(total.violations)


if __name__ == "__main__":
    sys.exit(main())
