"""A CLI is installed once and completely, or not at all, also by concurrent callers."""

from __future__ import annotations

import os
import re
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import pytest

from tests.vendor import conftest, install
from tests.vendor.aider import installation as aider
from tests.vendor.pins import PINS, Pin, here

PIN = Pin(
    name="toy", version="1.2.3", package="@toy/cli-{platform}", program="@toy/cli-{platform}/bin/toy",
    integrity={here(): "sha512-right"},
)  # fmt: skip

NPM = """
const fs = require("fs"), path = require("path");
const [name, version] = process.argv[3].split(/@(?=[^@]*$)/);
fs.appendFileSync(process.env.TOY_LOG, process.argv.slice(2).join(" ") + "\\n");
if (process.env.TOY_FAILS) { console.error("no such package"); process.exit(1); }
const bin = path.join("node_modules", name, "bin");
fs.mkdirSync(bin, { recursive: true });
fs.writeFileSync(path.join(bin, "toy"), "", { mode: process.env.TOY_EMPTY ? 0o644 : 0o755 });
if (process.env.TOY_PACKED) {
  const packed = require("zlib").brotliCompressSync(process.env.TOY_PACKED);
  fs.rmSync(path.join(bin, "toy"));
  fs.writeFileSync(path.join(bin, "toy.br"), packed);
}
const packages = { ["node_modules/" + name]: { version, integrity: process.env.TOY_INTEGRITY } };
fs.writeFileSync("node_modules/.package-lock.json", JSON.stringify({ packages }));
"""


@pytest.fixture
def log(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The calls of npm, which a script replaces."""
    script = tmp_path / "npm.js"
    script.write_text(NPM)
    monkeypatch.setattr(install, "NPM", script)
    monkeypatch.setenv("TOY_LOG", str(tmp_path / "log"))
    monkeypatch.setenv("TOY_INTEGRITY", "sha512-right")
    return tmp_path / "log"


def names(cache: Path) -> list[str]:
    return sorted(path.name for path in cache.iterdir() if not path.name.endswith(".lock"))


@pytest.mark.slow
def test_it_is_installed_once_without_scripts_at_the_exact_version(tmp_path: Path, log: Path) -> None:
    path = install.install(PIN, tmp_path / "cache")
    assert os.access(path, os.X_OK)
    assert install.install(PIN, tmp_path / "cache") == path == install.program(PIN, tmp_path / "cache")
    (call,) = log.read_text().splitlines()
    assert f"@toy/cli-{here()}@1.2.3" in call
    assert "--ignore-scripts" in call


@pytest.mark.slow
def test_a_packed_program_is_unpacked(tmp_path: Path, log: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TOY_PACKED", "the program")
    path = install.install(replace(PIN, packed=True), tmp_path / "cache")
    assert path.read_text() == "the program"
    assert os.access(path, os.X_OK)
    assert [file.name for file in path.parent.iterdir()] == ["toy"]


@pytest.mark.slow
def test_a_package_without_the_packed_program_leaves_nothing(tmp_path: Path, log: Path) -> None:
    with pytest.raises(install.InstallFailed, match=r"toy\.br"):
        install.install(replace(PIN, packed=True), tmp_path / "cache")
    assert names(tmp_path / "cache") == []


@pytest.mark.slow
def test_many_at_once_install_once(tmp_path: Path, log: Path) -> None:
    with ThreadPoolExecutor(4) as pool:
        paths = {*pool.map(lambda _: install.install(PIN, tmp_path / "cache"), range(4))}
    assert len(paths) == 1
    assert len(log.read_text().splitlines()) == 1


@pytest.mark.slow
def test_what_a_killed_install_left_is_swept_away(tmp_path: Path, log: Path) -> None:
    cache = tmp_path / "cache"
    (cache / f".{PIN.id}-abandoned" / "node_modules").mkdir(parents=True)
    install.install(PIN, cache)
    assert names(cache) == [f"{PIN.id}-{here()}"]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("setting", "value", "complaint"),
    [
        ("TOY_FAILS", "1", "no such package"),
        ("TOY_INTEGRITY", "sha512-wrong", "not what was pinned"),
        ("TOY_EMPTY", "1", "no program"),
    ],
)
def test_what_fails_leaves_nothing(
    tmp_path: Path, log: Path, monkeypatch: pytest.MonkeyPatch, setting: str, value: str, complaint: str
) -> None:
    monkeypatch.setenv(setting, value)
    with pytest.raises(install.InstallFailed, match=complaint):
        install.install(PIN, tmp_path / "cache")
    assert names(tmp_path / "cache") == []


def test_the_cache_is_outside_the_repository(monkeypatch: pytest.MonkeyPatch, home: Path) -> None:
    assert install.cache_folder() == home.parent / ".cache" / "farsteer" / "vendor"
    monkeypatch.setenv("XDG_CACHE_HOME", "/x")
    assert install.cache_folder() == Path("/x/farsteer/vendor")
    monkeypatch.setenv("FARSTEER_VENDOR_CACHE", "/y")
    assert install.cache_folder() == Path("/y")


@pytest.mark.parametrize(("value", "expected"), [("", False), ("0", False), ("false", False), ("true", True)])
def test_ci_says_so(monkeypatch: pytest.MonkeyPatch, value: str, expected: bool) -> None:
    monkeypatch.setenv("CI", value)
    assert install.in_ci() is expected


@pytest.mark.slow
def test_a_missing_cli_is_named_and_fails_only_in_ci(
    tmp_path: Path, log: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(install, "PINS", (PIN,))
    monkeypatch.setattr(install, "sdk_python", lambda home: home)
    monkeypatch.setattr(aider, "install", lambda cache: cache)
    monkeypatch.setenv("TOY_FAILS", "1")
    for ci, code in (("", 0), ("true", 1)):
        monkeypatch.setenv("CI", ci)
        assert install.main(tmp_path / "cache") == code
        assert "toy 1.2.3 is missing: no such package" in capsys.readouterr().err


def test_a_test_without_its_cli_is_skipped_by_name_and_fails_in_ci(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(conftest, "program", lambda pin: tmp_path / "nowhere")
    monkeypatch.setenv("CI", "")
    with pytest.raises(pytest.skip.Exception, match=r"toy 1\.2\.3 is not installed"):
        conftest.required(PIN)
    monkeypatch.setenv("CI", "true")
    with pytest.raises(pytest.fail.Exception, match=r"toy 1\.2\.3 is not installed"):
        conftest.required(PIN)


def test_every_pin_is_exact() -> None:
    assert len({pin.id for pin in PINS}) == len(PINS)
    for pin in PINS:
        assert re.fullmatch(r"\d+\.\d+\.\d+", pin.version)
        assert all(value.startswith("sha512-") for value in pin.integrity.values())
