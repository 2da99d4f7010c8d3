"""The pinned aider is installed completely or not at all, from locked and hashed packages."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.vendor.aider import installation
from tests.vendor.install import InstallFailed


def test_it_is_installed_once_with_hashes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ran: list[tuple[str, ...]] = []

    def run(*argv: str) -> None:
        ran.append(argv)
        installation.program(tmp_path).parent.mkdir(parents=True, exist_ok=True)

    monkeypatch.setattr(installation, "_run", run)
    assert installation.install(tmp_path) == installation.install(tmp_path) == installation.program(tmp_path)
    assert [argv[1] for argv in ran] == ["venv", "pip"]
    assert "--require-hashes" in ran[1]


@pytest.mark.slow
def test_what_fails_is_not_taken_for_installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(installation, "REQUIREMENTS", tmp_path / "requirements.txt")
    (tmp_path / "requirements.txt").write_text("aider-chat==0.0.1\n")
    monkeypatch.setattr(installation, "PYTHON", "/nowhere/python")
    with pytest.raises(InstallFailed, match="nowhere"):
        installation.install(tmp_path)
    assert not installation.is_installed(tmp_path)


def test_the_lock_is_exact_and_names_no_host() -> None:
    text = installation.REQUIREMENTS.read_text()
    assert re.fullmatch(r"\d+\.\d+\.\d+", installation.version())
    assert "://" not in text
    assert not re.search(r"^\s*--(index|extra|find)", text, re.MULTILINE)
    for block in re.split(r"\n(?=\S)", text.strip()):
        assert block.startswith("#") or "--hash=sha256:" in block, block
