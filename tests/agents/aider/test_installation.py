"""Where aider is, which Python runs it, and which versions can be used."""

from __future__ import annotations

from pathlib import Path

import pytest

from farsteer.agents.aider import installation
from farsteer.agents.aider.adapter import AiderAdapter
from tests.support.aider_simulator import install


@pytest.fixture
def python(tmp_path: Path) -> Path:
    path = tmp_path / "environment" / "bin" / "python"
    path.parent.mkdir(parents=True)
    path.write_text("#!/bin/sh\n")
    path.chmod(0o755)
    return path


def program(folder: Path, text: str) -> str:
    path = folder / "aider"
    path.write_text(text)
    path.chmod(0o755)
    return str(path)


def test_the_python_is_the_one_of_the_programs_first_line(tmp_path: Path, python: Path) -> None:
    found = installation.find(program(tmp_path, f"#!{python}\nimport aider\n"))
    assert found is not None
    assert found.python == str(python)


def test_a_path_that_is_too_long_for_a_first_line_is_on_the_second(tmp_path: Path, python: Path) -> None:
    text = f"#!/bin/sh\n'''exec' {python} \"$0\" \"$@\"\n' '''\nimport aider\n"
    found = installation.find(program(tmp_path, text))
    assert found is not None
    assert found.python == str(python)


def test_an_environment_that_can_be_moved_has_its_python_beside_the_program(
    python: Path, tmp_path: Path
) -> None:
    text = "#!/bin/sh\n'''exec' \"$(dirname -- \"$(realpath -- \"$0\")\")\"/'python' \"$0\" \"$@\"\n' '''\n"
    path = program(python.parent, text)
    link = tmp_path / "linked"
    link.symlink_to(path)
    found = installation.find(str(link))
    assert found is not None
    assert found.python == str(python)


@pytest.mark.parametrize(
    "text", ["", "\x7fELF", "#!\n", "#!/nowhere/python\n", "#!/bin/sh\n", '#!"unclosed\n']
)
def test_a_program_without_a_python_is_not_found(tmp_path: Path, text: str) -> None:
    assert installation.find(program(tmp_path, text)) is None


@pytest.mark.parametrize(
    ("version", "supported"),
    [("0.85.4", False), ("0.9.0", False), ("0.86.0", True), ("0.86.2", True), ("1.0.0", True)],
)
def test_an_old_version_is_refused(version: str, supported: bool) -> None:
    assert (installation.unsupported(version) is None) == supported


@pytest.mark.parametrize(
    ("name", "known"),
    [("OPENAI_API_KEY", True), ("OLLAMA_API_BASE", True), ("AIDER_MODEL", True), ("HOME", False)],
)
def test_a_key_or_a_model_counts_as_a_login(name: str, known: bool) -> None:
    assert installation.has_key({name: "x"}) == known
    assert not installation.has_key({name: ""})


async def test_detect_tells_an_old_a_new_and_a_missing_version(
    tmp_path: Path, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("AIDER_EXECUTABLE", raising=False)
    for name in ("OPENAI_API_KEY", "ANTHROPIC_API_KEY", "AIDER_MODEL"):
        monkeypatch.delenv(name, raising=False)
    for folder in ("good", "old", "new"):
        (tmp_path / folder).mkdir()
    info = await AiderAdapter(install(tmp_path / "good")).detect()
    assert (info.available, info.version, info.warning) == (True, "0.86.2", None)
    assert info.login == installation.LOGIN
    info = await AiderAdapter(install(tmp_path / "old", "0.50.1")).detect()
    assert (info.available, info.version) == (False, "0.50.1")
    assert "too old" in (info.reason or "")
    info = await AiderAdapter(install(tmp_path / "new", "0.99.0")).detect()
    assert info.available
    assert "newer than 0.86.2" in (info.warning or "")
    info = await AiderAdapter().detect()
    assert not info.available
    assert info.install == installation.INSTALL_COMMAND
