"""The README is executed: what it shows is what a newcomer gets."""

from __future__ import annotations

import os
import re
import select
import shutil
import signal
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.node import JS, NODE
from tests.support.ports import free_port

ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text()
SECONDS = 60.0


def block(language: str) -> str:
    found = re.findall(rf"^```{language}\n(.*?)^```$", README, re.MULTILINE | re.DOTALL)
    assert len(found) == 1, f"the README has one {language} example"
    return found[0]


class Newcomer:
    """Somebody with an empty home directory who typed `make up`."""

    def __init__(self, home: Path, port: int) -> None:
        self.port = port
        self.desk = home / "project"
        self.desk.mkdir(parents=True)
        keep = {name: value for name, value in os.environ.items() if name in ("PATH", "LANG", "TMPDIR")}
        self.env = {**keep, "HOME": str(home), "PATH": f"{ROOT / '.venv' / 'bin'}:{keep['PATH']}"}

    def run(self, *argv: str, script: str | None = None, cwd: Path | None = None) -> str:
        done = subprocess.run(
            argv,
            input=None if script is None else self.here(script),
            cwd=cwd or self.desk,
            env=self.env,
            capture_output=True,
            text=True,
            timeout=SECONDS,
        )
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    def here(self, text: str) -> str:
        """The example as printed, but for the port of this test's hub."""
        assert "127.0.0.1:3006" in text or "Client()" in text
        return text.replace("127.0.0.1:3006", f"127.0.0.1:{self.port}")


def first_line(process: subprocess.Popen[str]) -> str:
    assert process.stdout is not None
    deadline = time.monotonic() + SECONDS
    ready, _, _ = select.select([process.stdout], [], [], deadline - time.monotonic())
    assert ready, "make up said nothing"
    return process.stdout.readline()


@pytest.fixture
def newcomer(tmp_path: Path) -> Iterator[Newcomer]:
    someone = Newcomer(tmp_path / "home", free_port())
    with (tmp_path / "stderr").open("w+") as log:
        process = subprocess.Popen(
            ["make", "--no-print-directory", "up", f"ARGS=--port {someone.port}"],
            cwd=ROOT,
            env=someone.env,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=log,
            text=True,
            start_new_session=True,
        )
        try:
            line = first_line(process)
            log.seek(0)
            assert f"127.0.0.1:{someone.port}" in line, line + log.read()
            assert str(Path(someone.env["HOME"]) / ".farsteer" / "token") in line
            yield someone
        finally:
            os.killpg(process.pid, signal.SIGTERM)
            rest, _ = process.communicate(timeout=SECONDS)
        assert rest == "", "one line on stdout, no more"


def test_the_commands_are_the_ones_of_the_makefile() -> None:
    commands = re.findall(r"^(make \w+)", block("sh"), re.MULTILINE)
    assert commands == ["make up", "make test"]


def test_the_curl_calls(newcomer: Newcomer) -> None:
    if shutil.which("curl") is None and "CI" not in os.environ:
        pytest.skip("this machine has no curl")
    out = newcomer.run("bash", "-euo", "pipefail", "-s", script=block("bash"))
    assert '"state":"accepted"' in out or '"state":"queued"' in out
    assert '"outcome":"approved"' in out
    assert '"kind":"approval_requested"' in out


def test_the_python_script(newcomer: Newcomer) -> None:
    script = block("python")
    assert len(script.strip().splitlines()) <= 10
    newcomer.env["FARSTEER_HUB"] = f"http://127.0.0.1:{newcomer.port}"
    out = newcomer.run("python", "-", script=script)
    assert "hello from Python" in out
    assert "The command has run." in out
    assert "AgentMessage" in out


def test_the_node_script(newcomer: Newcomer, tmp_path: Path) -> None:
    script = block("js")
    assert len(script.strip().splitlines()) <= 11
    program = JS / f"readme-{tmp_path.name}.mjs"
    program.write_text(newcomer.here(script))
    try:
        process = subprocess.Popen(
            [str(NODE), str(program)],
            env=newcomer.env,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )
        try:
            newcomer.env["FARSTEER_HUB"] = f"http://127.0.0.1:{newcomer.port}"
            newcomer.run("farsteer", "exec", "hello", "--agent", "demo")
            assert re.match(r"session-\w+|message-\w+|online-users-changed", first_line(process))
        finally:
            os.killpg(process.pid, signal.SIGKILL)
            process.communicate()
    finally:
        program.unlink()
