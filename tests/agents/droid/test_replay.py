"""Recorded transcripts of the real Droid give the outputs in `golden/`."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.agents.droid.replay import GOLDEN, TRANSCRIPTS, golden_of, replay


@pytest.mark.parametrize("transcript", TRANSCRIPTS, ids=lambda path: path.stem)
async def test_a_transcript_gives_its_golden_outputs(transcript: Path) -> None:
    said = await replay(transcript)
    assert said == golden_of(transcript).read_text(), (
        "if this is intended, run .venv/bin/python -m tests.agents.droid.replay and read the changes"
    )


def test_every_transcript_has_a_golden_file_and_the_reverse() -> None:
    assert {golden_of(transcript) for transcript in TRANSCRIPTS} == set(GOLDEN.iterdir())


@pytest.mark.parametrize("transcript", TRANSCRIPTS, ids=lambda path: path.stem)
async def test_each_turn_ends_once_and_the_exit_is_last(transcript: Path) -> None:
    lines = (await replay(transcript)).splitlines()
    said = [line for line in lines if " fails: " not in line]
    # A message that was sent during a turn is handled in a turn that Droid begins by itself.
    begun = sum(line.startswith(("> add_user_message", "TurnBegun")) for line in lines)
    refused = sum(line.startswith("add_user_message fails: BadRequest") for line in lines)
    ended = [line.split()[1] for line in lines if line.startswith("END ")]
    assert len(ended) == begun - refused
    assert len(set(ended)) == len(ended)
    assert said[-1].startswith("EXIT ")
