"""docs/droid.md is true: its example runs, and it names every method there is."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from farsteer.faces.droid.methods import METHODS
from tests.support.droid_client import note_of, text_of

PAGE = (Path(__file__).parents[2] / "docs" / "droid.md").read_text()


@pytest.mark.slow
def test_the_example_runs(home: Path, project: Path) -> None:
    (example,) = re.findall(r"^```sh\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    done = subprocess.run(
        ["bash", "-euc", example], cwd=project, env={**os.environ, "PATH": path}, capture_output=True, text=True,
        timeout=60,
    )  # fmt: skip
    assert (done.returncode, done.stderr) == (0, "")
    lines = [json.loads(line) for line in done.stdout.splitlines()]
    assert text_of([note for line in lines if (note := note_of(line))]) == "hello"
    assert note_of(lines[-1]) == {"type": "droid_working_state_changed", "newState": "idle"}


def test_every_method_is_on_the_page() -> None:
    for method in METHODS:
        assert f"`{method.removeprefix('droid.')}`" in PAGE
