"""docs/testing-agents.md is true: its directives are understood, and its example runs."""

from __future__ import annotations

import json
import os
import re
import subprocess
from pathlib import Path

import pytest

from tests.support.model.script import split
from tests.support.ports import free_port

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "testing-agents.md").read_text()


def test_every_directive_of_the_page_is_understood() -> None:
    shown = {*re.findall(r"`(\[\[.*?\]\])`", PAGE)} - {"[[and]]", "[[new]]"}
    assert len(shown) > 15
    for directive in shown:
        assert split(directive.replace("\\|", "|")), directive


@pytest.mark.slow
def test_the_example_runs(tmp_path: Path) -> None:
    (example,) = re.findall(r"^```sh\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)
    port = free_port()
    for made in ("model.jsonl", "requests"):
        example = example.replace(f" {made} ", f" {tmp_path / made} ")
    done = subprocess.run(
        ["bash", "-euc", example.replace("4010", str(port)) + "wait"], cwd=ROOT, env={"PATH": os.environ["PATH"]},
        stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=30,
    )  # fmt: skip
    listening, _, answer = done.stdout.partition("\n")
    assert listening == f"listening on http://127.0.0.1:{port}", done.stderr
    assert json.loads(answer)["choices"][0]["message"]["content"] == "hello"
    assert "answered" in (tmp_path / "model.jsonl").read_text()
    assert [*(tmp_path / "requests").iterdir()]
