"""The linter refuses what executes data, in the program and in its tests and benchmarks."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
BANNED = {
    "S102": "exec(text)",
    "S301": "import pickle\n\npickle.loads(data)",
    "S302": "import marshal\n\nmarshal.loads(data)",
    "S306": "import tempfile\n\ntempfile.mktemp()",
    "S307": "eval(text)",
    "S324": "import hashlib\n\nhashlib.md5(data)",
    "S506": "import yaml\n\nyaml.load(text, Loader=yaml.Loader)",
    "S602": "import subprocess\n\nsubprocess.run(text, shell=True, check=True)",
    "S605": "import os\n\nos.system(text)",
    "S701": "import jinja2\n\njinja2.Environment(autoescape=False)",
}


@pytest.mark.slow
@pytest.mark.parametrize("folder", ["src/farsteer/hub", "tests", "bench"])
def test_code_that_executes_data_is_refused(folder: str) -> None:
    for code, text in BANNED.items():
        name = f"{folder}/example.py"
        answer = subprocess.run(
            [sys.executable, "-m", "ruff", "check", "--output-format", "concise", "--stdin-filename", name, "-"],
            input=f"{text}\n", capture_output=True, text=True, timeout=30, cwd=ROOT, check=False,
        )  # fmt: skip
        assert f" {code} " in answer.stdout, f"{code} is not selected for {folder}: {answer.stdout}"
