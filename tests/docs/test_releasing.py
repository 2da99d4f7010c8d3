"""docs/releasing.md is a list that can be followed: what it runs works, and what it names exists."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "releasing.md").read_text()
SOURCES = ("pyproject.toml", "hatch_build.py", "README.md", "CHANGELOG.md", "LICENSE")


def test_what_the_page_names_exists() -> None:
    paths = re.findall(r"`((?:src|tests|docs|registry)/[\w./-]+|[A-Z]+\.md|hatch_build\.py)`", PAGE)
    assert len(paths) > 8
    assert [path for path in paths if not (ROOT / path).exists()] == []
    makefile = (ROOT / "Makefile").read_text()
    for target in re.findall(r"`make ([\w-]+)`", PAGE):
        assert re.search(rf"^{target}:", makefile, re.MULTILINE), target
    for test in re.findall(r"`(test_\w+)`", PAGE):
        assert f"def {test}(" in (ROOT / "tests" / "test_package.py").read_text()


def test_no_project_address_is_claimed_before_there_is_one() -> None:
    assert ("[project.urls]" in (ROOT / "pyproject.toml").read_text()) == (
        "No file names one today" not in PAGE
    )


@pytest.mark.slow
def test_the_build_runs(tmp_path: Path) -> None:
    (block,) = re.findall(r"^```sh\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)
    for name in SOURCES:
        shutil.copy(ROOT / name, tmp_path)
    shutil.copytree(ROOT / "src", tmp_path / "src", ignore=shutil.ignore_patterns("__pycache__"))
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    done = subprocess.run(
        ["bash", "-euc", block], cwd=tmp_path, env={**os.environ, "PATH": path, "UV_PYTHON": sys.executable},
        capture_output=True, text=True, timeout=60,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    files = (tmp_path / "dist" / "files.txt").read_text()
    assert "farsteer/cli/main.py" in files
    assert "__pycache__" not in files
    sums = (tmp_path / "SHA256SUMS").read_text().splitlines()
    assert [line.rpartition(".")[2] for line in sorted(sums, key=lambda line: line[64:])] == ["whl", "gz"]
