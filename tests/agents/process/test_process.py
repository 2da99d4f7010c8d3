"""`AgentProcess` reads, writes to and ends a process in bounded time, whatever the process does."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
import time
from collections.abc import Mapping
from pathlib import Path

import psutil
import pytest

from farsteer.agents.process import AgentProcess, ProcessExit, cgroups, posix
from farsteer.agents.process.environment import LAUNCH_VARIABLE
from farsteer.core.errors import AgentError, ErrorCode
from farsteer.core.lines import Line, Oversized
from tests.agents.conftest import Run, gone, until
from tests.support.processes import is_alive

pytestmark = pytest.mark.slow

SECONDS = 10.0


class Watched:
    """A process under test, with its lines and its exits."""

    def __init__(
        self,
        *argv: str,
        cwd: Path | str = "/",
        limit: int = 1024 * 1024,
        environment: Mapping[str, str] | None = None,
    ) -> None:
        self.lines: list[Line] = []
        self.batches = 0
        self.gate = asyncio.Event()
        self.gate.set()
        self.exits: list[ProcessExit] = []
        self._changed = asyncio.Condition()
        self.process = AgentProcess.start(
            argv,
            cwd=str(cwd),
            environment={"PATH": os.environ["PATH"], "ONLY": "this", **(environment or {})},
            on_lines=self._receive,
            on_exit=self._record_exit,
            line_limit=limit,
        )

    async def _receive(self, lines: list[Line]) -> None:
        await self.gate.wait()
        self.lines += lines
        self.batches += 1
        async with self._changed:
            self._changed.notify_all()

    async def _record_exit(self, ended: ProcessExit) -> None:
        self.exits.append(ended)

    async def line(self, text: bytes) -> None:
        async with asyncio.timeout(SECONDS), self._changed:
            await self._changed.wait_for(lambda: text in self.lines)

    async def number(self) -> int:
        """Wait for the first line, which is a number."""
        async with asyncio.timeout(SECONDS), self._changed:
            await self._changed.wait_for(lambda: self.lines)
        first = self.lines[0]
        assert isinstance(first, bytes)
        return int(first)

    async def exit(self) -> ProcessExit:
        async with asyncio.timeout(SECONDS):
            await self.process.wait()
        (ended,) = self.exits
        return ended


def shell(script: str, **more: object) -> Watched:
    return Watched("/bin/sh", "-c", script, **more)  # pyright: ignore[reportArgumentType]


def python(script: str, **more: object) -> Watched:
    return Watched(sys.executable, "-I", "-S", "-c", script, **more)  # pyright: ignore[reportArgumentType]


def test_lines_come_in_order_and_the_exit_comes_last(run: Run) -> None:
    async def scenario() -> None:
        watched = shell("i=0; while [ $i -lt 200 ]; do echo $i; i=$((i+1)); done; printf unfinished; exit 3")
        ended = await watched.exit()
        assert watched.lines == [*(str(n).encode() for n in range(200)), b"unfinished"]
        assert ended == ProcessExit(3, "")
        assert ended.reason == "exit code 3"

    run(scenario())


def test_it_runs_in_its_directory_with_only_its_environment(run: Run, tmp_path: Path) -> None:
    real = str(tmp_path.resolve()).encode()

    async def scenario() -> None:
        watched = shell("pwd -P; env", cwd=tmp_path)
        await watched.exit()
        assert watched.lines[0] == real
        assert b"ONLY=this" in watched.lines
        assert not [line for line in watched.lines if isinstance(line, bytes) and line.startswith(b"HOME=")]

    run(scenario())


def test_a_missing_program_is_an_agent_error(run: Run) -> None:
    async def scenario() -> None:
        with pytest.raises(AgentError, match="no-such-program") as caught:
            Watched("no-such-program")
        assert caught.value.code is ErrorCode.AGENT_START_FAILED

    run(scenario())


def test_a_large_write_arrives_whole(run: Run) -> None:
    async def scenario() -> None:
        watched = python(
            "import sys, hashlib; print(hashlib.sha256(sys.stdin.buffer.readline()).hexdigest())"
        )
        import hashlib

        data = os.urandom(8_000_000).hex().encode() + b"\n"
        await watched.process.write(data)
        await watched.exit()
        assert watched.lines == [hashlib.sha256(data).hexdigest().encode()]

    run(scenario())


def test_a_write_to_an_agent_that_does_not_read_times_out(run: Run) -> None:
    async def scenario() -> None:
        watched = shell("echo up; exec sleep 60")
        await watched.line(b"up")
        with pytest.raises(AgentError) as caught:
            await watched.process.write(b"x" * 1_000_000, timeout=0.1)
        assert caught.value.code is ErrorCode.TIMEOUT
        # The pipe holds half a line, so nothing may follow it.
        with pytest.raises(AgentError, match="closed"):
            await watched.process.write(b"y\n", timeout=0.1)
        await watched.process.stop(0.05)
        await watched.exit()

    run(scenario())


def test_writing_to_a_dead_agent_is_an_agent_error(run: Run) -> None:
    async def scenario() -> None:
        watched = shell("exit 0")
        await watched.exit()
        with pytest.raises(AgentError) as caught:
            await watched.process.write(b"x\n")
        assert caught.value.code is ErrorCode.AGENT_DIED

    run(scenario())


def test_a_receiver_that_waits_makes_the_agent_wait(run: Run) -> None:
    async def scenario() -> None:
        watched = python(
            "import os, sys\n"
            "line = b'x' * 999 + b'\\n'\n"
            "for n in range(3000):\n"
            "    os.write(1, line)\n"
            "    os.write(2, b'%d\\n' % n)\n"
        )
        watched.gate.clear()
        await until(lambda: watched.process.stderr != "")
        seen = ""
        async with asyncio.timeout(SECONDS):
            while seen != watched.process.stderr:
                seen = watched.process.stderr
                await asyncio.sleep(0.1)
        written = int(seen.splitlines()[-1])
        assert written < 1000, "one chunk and one pipe at most"
        watched.gate.set()
        await watched.exit()
        assert len(watched.lines) == 3000

    run(scenario())


def test_an_oversized_line_is_reported_and_reading_goes_on(run: Run) -> None:
    async def scenario() -> None:
        watched = python("print('a'); print('x' * 3_000_000); print('b')", limit=1_000_000)
        await watched.exit()
        assert watched.lines == [b"a", Oversized(3_000_000, b"x" * 200), b"b"]

    run(scenario())


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        ("'[' * 1000", "JSON is nested more than 64 levels deep"),
        ("'[' * 900_000", "JSON is nested more than 64 levels deep"),
        ("'[' + '{},' * 300_000 + '{}]'", "JSON has more than 100000 values"),
    ],
)
def test_json_that_is_too_complex_is_reported_and_reading_goes_on(run: Run, line: str, reason: str) -> None:
    async def scenario() -> None:
        watched = python(f"print('a'); print({line}); print('b')")
        await watched.exit()
        first, complex_line, last = watched.lines
        assert (first, last) == (b"a", b"b")
        assert isinstance(complex_line, Oversized)
        assert complex_line.reason == reason

    run(scenario())


def test_only_the_end_of_stderr_is_kept(run: Run) -> None:
    async def scenario() -> None:
        watched = python("import sys\nfor n in range(100_000): sys.stderr.write(f'line {n}\\n')")
        ended = await watched.exit()
        assert ended.stderr.endswith("line 99998\nline 99999")
        assert len(ended.stderr) <= 8192

    run(scenario())


def test_stop_closes_stdin_first(run: Run) -> None:
    async def scenario() -> None:
        watched = shell("while read line; do :; done; echo bye; exit 7")
        await watched.process.stop()
        ended = await watched.exit()
        assert watched.lines == [b"bye"]
        assert ended == ProcessExit(7, "", "stopped")
        assert ended.reason == "stopped"
        await watched.process.stop()

    run(scenario())


@pytest.mark.parametrize("ignored", ["", "trap '' TERM;"])
def test_stop_ends_what_ignores_its_input_and_sigterm(run: Run, ignored: str) -> None:
    async def scenario() -> None:
        watched = shell(f"{ignored} echo up; while :; do sleep 0.05; done")
        await watched.line(b"up")
        begun = time.monotonic()
        await asyncio.gather(watched.process.stop(0.2), watched.process.stop(0.2))
        assert time.monotonic() - begun < 2
        assert (await watched.exit()).code == (-9 if ignored else -15)
        assert not psutil.pid_exists(watched.process.pid)

    run(scenario())


ESCAPES = {
    "same group": "sleep 300 &",
    "own group": "set -m; sleep 300 &",
    "own session": "setsid sleep 300 &",
    "own session, and adopted by another parent": "(setsid sleep 300 & echo $!)",
}


def escape(how: str) -> str:
    """A script that starts a grandchild and prints its pid."""
    return ESCAPES[how] if "echo" in ESCAPES[how] else f"{ESCAPES[how]} echo $!"


@pytest.mark.parametrize("how", ESCAPES)
def test_an_exit_is_noticed_while_a_grandchild_holds_the_pipes_and_the_grandchild_is_ended(
    run: Run, how: str
) -> None:
    async def scenario() -> None:
        watched = shell(f"{escape(how)}; exit 5")
        begun = time.monotonic()
        ended = await watched.exit()
        assert ended.code == 5
        assert time.monotonic() - begun < 2
        await gone(await watched.number())

    run(scenario())


@pytest.mark.parametrize("how", ESCAPES)
def test_stop_leaves_no_descendant_not_even_one_in_a_session_of_its_own(run: Run, how: str) -> None:
    async def scenario() -> None:
        watched = shell(f"{escape(how)}; cat")
        grandchild = await watched.number()
        await watched.process.stop()
        await gone(grandchild)
        await watched.exit()

    run(scenario())


@pytest.mark.parametrize("how", ["killed by us", "crashed"])
def test_a_killed_agent_leaves_no_descendant(run: Run, how: str) -> None:
    async def scenario() -> None:
        watched = shell(f"{escape('own session, and adopted by another parent')}; exec sleep 300")
        grandchild = await watched.number()
        if how == "crashed":
            os.kill(watched.process.pid, signal.SIGKILL)
        else:
            watched.process.kill("a test")
        assert (await watched.exit()).code == -9
        await gone(grandchild)

    run(scenario())


def test_a_descendant_without_the_mark_is_ended_if_it_is_in_the_agent_s_session(run: Run) -> None:
    async def scenario() -> None:
        watched = shell("set -m; env -i /bin/sleep 300 & echo $!; exit 0")
        grandchild = await watched.number()
        await watched.exit()
        await gone(grandchild)

    run(scenario())


def test_only_processes_of_the_same_launch_are_ended(run: Run) -> None:
    async def scenario() -> None:
        marks = ("home:1:s", "home:10:s", "home:1:s2", "")
        dead, *spared = [
            Watched("/bin/sh", "-c", f"{escape('own session')}; cat", environment={LAUNCH_VARIABLE: mark})
            for mark in marks
        ]
        numbers = [await watched.number() for watched in (dead, *spared)]
        await dead.process.stop()
        await gone(numbers[0])
        assert all(is_alive(psutil.Process(number)) for number in numbers[1:])
        for watched in spared:
            await watched.process.stop()
        for number in numbers:
            await gone(number)

    run(scenario())


def test_an_agent_that_closes_its_output_is_ended(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("farsteer.agents.process.process._CLOSED_STDOUT_GRACE", 0.1)

    async def scenario() -> None:
        watched = shell("echo last; exec 1>&-; exec sleep 300")
        ended = await watched.exit()
        assert (watched.lines, ended.code) == ([b"last"], -9)

    run(scenario())


def test_a_receiver_that_fails_ends_the_process(run: Run, caplog: pytest.LogCaptureFixture) -> None:
    async def scenario() -> None:
        async def broken(lines: list[Line]) -> None:
            raise ValueError("cannot be handled")

        exits: list[ProcessExit] = []

        async def on_exit(ended: ProcessExit) -> None:
            exits.append(ended)

        process = AgentProcess.start(
            ["/bin/sh", "-c", "echo hi; exec sleep 300"],
            cwd="/",
            environment={},
            on_lines=broken,
            on_exit=on_exit,
        )
        async with asyncio.timeout(SECONDS):
            await process.wait()
        assert [ended.code for ended in exits] == [-9]
        assert not psutil.pid_exists(process.pid)
        assert "cannot be handled" in caplog.text

    run(scenario())


def test_cancelling_the_reader_ends_the_process(run: Run) -> None:
    async def scenario() -> Watched:
        watched = shell("echo up; exec sleep 300")
        await watched.line(b"up")
        watched.process._reader.cancel()
        await asyncio.wait([watched.process._reader])
        return watched

    watched = run(scenario())
    assert not psutil.pid_exists(watched.process.pid)
    assert watched.exits == []


def test_an_exit_is_noticed_without_pidfd(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(os, "pidfd_open", raising=False)

    async def scenario() -> None:
        watched = shell("read line; sleep 300 & exit 4")
        await watched.process.write(b"go\n")
        assert (await watched.exit()).code == 4

    run(scenario())


def test_an_exit_is_described_by_its_signal() -> None:
    assert posix.describe_exit(-9) == "killed by SIGKILL"
    assert posix.describe_exit(-123) == "killed by signal 123"


@pytest.mark.parametrize("reads", [True, False])
async def test_a_message_of_a_killed_process_is_taken_only_if_it_was_read(reads: bool) -> None:
    code = "import os, time; print('up', flush=True); %s; print('read', flush=True); time.sleep(60)"
    agent = Watched(sys.executable, "-c", code % ("os.read(0, 1)" if reads else "time.sleep(60)"))
    await agent.line(b"up")

    async def hand_over() -> None:
        with agent.process.handing_over():
            await agent.process.write(b"hello\n")
            if reads:
                await agent.line(b"read")
            agent.process.kill("as asked")
            await agent.process.wait_reaped()
            await agent.process.write(b"more\n")

    with pytest.raises(AgentError) as died:
        await hand_over()
    assert died.value.code is (ErrorCode.AGENT_DIED if reads else ErrorCode.MESSAGE_NOT_TAKEN)
    await agent.exit()


async def test_a_message_for_a_process_that_is_gone_is_not_taken() -> None:
    agent = Watched("true")
    await agent.exit()
    with pytest.raises(AgentError) as died, agent.process.handing_over():
        await agent.process.write(b"hello\n")
    assert died.value.code is ErrorCode.MESSAGE_NOT_TAKEN


@pytest.mark.skipif(cgroups.parent_group() is None, reason="control groups cannot be created here")
@pytest.mark.parametrize("how", ["ends by itself", "killed"])
async def test_a_daemon_with_a_cleared_environment_is_found_by_its_control_group(how: str) -> None:
    """It has left its parent, its session, its process group and the launch mark behind."""
    daemon = "(setsid env -i /bin/sh -c 'echo $$; exec sleep 300' &)"
    agent = Watched("sh", "-c", f"{daemon}; read line", environment={LAUNCH_VARIABLE: "home:1:daemon"})
    pid = await agent.number()
    left = psutil.Process(pid)
    if how == "killed":
        agent.process.kill("as asked")
    else:
        await agent.process.write(b"end\n")
    await agent.exit()
    await until(lambda: not is_alive(left))
    group = cgroups.create_group("home:1:daemon")
    assert group is not None
    assert group.remove()


async def test_a_program_that_does_not_exist_fails_to_start_also_in_a_control_group() -> None:
    with pytest.raises(AgentError, match="could not start") as caught:
        Watched("/no/such/program")
    assert caught.value.code is ErrorCode.AGENT_START_FAILED
