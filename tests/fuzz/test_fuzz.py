"""Mutated input on every face stops nothing, fills nothing, breaks nothing, and disturbs no other client.

`make fuzz SECONDS=600 SEED=7 FACE=acp FIRST=620` runs longer, others, one face, or begins with a certain attack.
"""

from __future__ import annotations

import logging
import os
from pathlib import Path

import pytest

from tests.fuzz.attacks import ATTACKS
from tests.fuzz.campaign import Campaign

SECONDS = float(os.environ.get("FUZZ_SECONDS") or 70)
"""Of all campaigns together."""
FIRST = int(os.environ.get("FUZZ_FIRST") or 0)
CHOSEN = (os.environ.get("FUZZ_FACE") or ",".join([*ATTACKS, "all"])).split(",")


@pytest.mark.faults
@pytest.mark.timeout(0)
@pytest.mark.parametrize("face", CHOSEN)
async def test_mutated_input_disturbs_nothing(
    face: str, tmp_path: Path, endurance_seed: int, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.ERROR)
    workers = int(os.environ.get("PYTEST_XDIST_WORKER_COUNT", "1"))
    seconds = SECONDS * min(workers, len(CHOSEN)) / len(CHOSEN)
    faces = ATTACKS if face == "all" else {face: ATTACKS[face]}
    campaign = Campaign(faces, endurance_seed, seconds, FIRST)
    try:
        print(await campaign.run(tmp_path))
    except BaseException:
        campaign.frames.write(tmp_path / "frames.jsonl")
        again = f"make fuzz SEED={endurance_seed} FACE={face} SECONDS={SECONDS:g}"
        print(f"\nto repeat it: {again}\nthe last frames: {tmp_path / 'frames.jsonl'}")
        raise
