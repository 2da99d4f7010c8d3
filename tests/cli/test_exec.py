"""`farsteer exec`: output, approvals, interrupts and exit codes."""

from __future__ import annotations

import asyncio
import json
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import psutil
import pytest

from farsteer.client.config import running_hub
from tests.cli.command import farsteer, finish, start
from tests.cli.conftest import RunCommand
from tests.support.eventually import eventually
from tests.support.processes import is_alive
from tests.support.stack import Stack

pytestmark = pytest.mark.slow


def entries(text: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in text.splitlines()]


async def test_an_answer_without_a_hub(project: Path) -> None:
    result = await farsteer("exec", "say hello there", cwd=project)
    assert (result.code, result.out, result.err) == (0, "hello there\n", "")


async def test_the_prompt_from_stdin(project: Path) -> None:
    assert (await farsteer("exec", text="say from a pipe", cwd=project)).out == "from a pipe\n"
    result = await farsteer("exec", "-", text="  \n", cwd=project)
    assert result.code == 2
    assert "empty" in result.err


async def test_json_is_the_one_result_object_of_droid(home: Path, run_command: RunCommand) -> None:
    result = await run_command("exec", "--output-format", "json", "say hello")
    assert result.code == 0
    (only,) = entries(result.out)
    expected = {"type": "result", "subtype": "success", "is_error": False, "num_turns": 1, "result": "hello"}
    assert only.items() >= expected.items()
    assert [*only] == [
        "type", "subtype", "is_error", "duration_ms", "num_turns", "result", "session_id", "usage",
    ]  # fmt: skip
    assert only["usage"]["output_tokens"] > 0
    continued = await run_command("exec", "-o", "json", "-s", only["session_id"], "fail no such luck")
    (failed,) = entries(continued.out)
    assert (continued.code, failed["subtype"], failed["is_error"]) == (1, "failure", True)
    assert failed["session_id"] == only["session_id"]
    assert "no such luck" in failed["result"]
    denied = await run_command("exec", "-o", "json", "write note.txt hello")
    (only,) = entries(denied.out)
    assert (denied.code, only["subtype"], only["is_error"]) == (4, "failure", True)


async def test_nobody_there_means_no(project: Path) -> None:
    result = await farsteer("exec", "write note.txt hello", cwd=project)
    assert result.code == 4
    assert "denied, because nobody can answer here" in result.err
    assert "--permission-mode" in result.err
    assert not (project / "note.txt").exists()


async def test_yolo_and_modes_need_no_approval(project: Path, run_command: RunCommand) -> None:
    assert (await run_command("exec", "--yolo", "--cwd", str(project), "write a.txt hello")).code == 0
    assert (
        await run_command("exec", "--permission-mode", "acceptEdits", "--cwd", str(project), "write b.txt hi")
    ).code == 0
    assert sorted(path.name for path in project.iterdir()) == ["a.txt", "b.txt"]


async def test_a_crash_is_a_failure(home: Path, run_command: RunCommand) -> None:
    result = await run_command("exec", "crash")
    assert result.code == 1
    assert "farsteer: the turn ended as crashed" in result.err


@pytest.mark.parametrize(
    ("argv", "code", "said"),
    [
        (["--agent", "nobody"], 1, "farsteer agents"),
        (["--cwd", "/does/not/exist"], 1, "/does/not/exist"),
        (["--machine", "elsewhere"], 1, "elsewhere"),
        (["--session", "ffff"], 1, "ffff"),
        (["--permission-mode", "reckless"], 2, "reckless"),
    ],
)
async def test_wrong_arguments_say_why(
    home: Path, run_command: RunCommand, argv: list[str], code: int, said: str
) -> None:
    result = await run_command("exec", *argv, "hello")
    assert (result.code, result.out) == (code, "")
    assert said in result.err


async def test_the_directory_must_be_given_for_another_machine(
    hub: Stack, run_command: RunCommand, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("farsteer.cli.terminal.execution.socket.gethostname", lambda: "another-host")
    result = await run_command("exec", "hello")
    assert result.code == 2
    assert "--cwd" in result.err


async def test_a_session_is_continued(home: Path, run_command: RunCommand) -> None:
    first = await run_command("exec", "--output-format", "json", "say one")
    session = entries(first.out)[-1]["session_id"]
    second = await run_command("exec", "--session", session[:8], "history")
    assert second.code == 0
    assert "say one" in second.out


async def test_a_running_hub_is_used_and_has_the_session(hub: Stack, project: Path) -> None:
    result = await farsteer("exec", "say through the hub", cwd=project)
    assert (result.code, result.out) == (0, "through the hub\n")
    account = await hub.sign_in()
    [session] = (await account.get_json("/api/sessions"))["sessions"]
    assert (session["title"], session["source"]) == ("say through the hub", "cli")
    await account.until(session["id"], "stopped")


async def test_waiting_for_another_client_to_answer(hub: Stack, project: Path) -> None:
    process = await start("exec", "--approvals", "wait", "write note.txt hello", cwd=project)
    account = await hub.sign_in()
    asked: list[Any] = []
    async with asyncio.timeout(30):
        while not asked:
            asked = (await account.get_json("/api/approvals"))["approvals"]
            await asyncio.sleep(0.01)
    path = f"/api/sessions/{asked[0]['sessionId']}/permissions/{asked[0]['approval']['id']}/approve"
    await account.post_json(path)
    result = await finish(process)
    assert result.code == 0
    assert (project / "note.txt").read_text().strip() == "hello"


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
async def test_an_interrupt_ends_the_turn(project: Path, number: int) -> None:
    process = await start("exec", "slow 2000", cwd=project)
    assert process.stdout is not None
    async with asyncio.timeout(30):
        await process.stdout.readexactly(5)
    process.send_signal(number)
    result = await finish(process)
    assert result.code == 130
    assert "interrupting" in result.err
    assert "Traceback" not in result.err


async def test_a_second_interrupt_exits_at_once(project: Path) -> None:
    process = await start("exec", "ignore interrupt", cwd=project)
    assert process.stdout is not None
    assert process.stderr is not None
    async with asyncio.timeout(30):
        await process.stdout.readline()
        process.send_signal(signal.SIGINT)
        await process.stderr.readline()
    process.send_signal(signal.SIGINT)
    assert (await finish(process)).code == 130


async def test_a_second_interrupt_waits_for_no_agent_and_leaves_none(project: Path) -> None:
    """An orderly end of this agent takes twice the grace of 3 s, because only SIGKILL ends it."""
    process = await start("exec", "stubborn", cwd=project)
    assert process.stdout is not None
    assert process.stderr is not None
    async with asyncio.timeout(30):
        await process.stdout.readline()
        agents = psutil.Process(process.pid).children(recursive=True)
        process.send_signal(signal.SIGINT)
        await process.stderr.readline()
    process.send_signal(signal.SIGINT)
    async with asyncio.timeout(5):
        assert await process.wait() == 130
    assert agents
    await eventually(lambda: not any(is_alive(agent) for agent in agents))


async def test_a_second_exec_on_the_same_home_says_what_to_do(project: Path, home: Path) -> None:
    process = await start("exec", "slow 2000", cwd=project)
    assert process.stdout is not None
    async with asyncio.timeout(30):
        await process.stdout.readexactly(5)
    second = await farsteer("exec", "say hello", cwd=project)
    assert second.code == 1
    assert str(process.pid) in second.err
    assert "farsteer up" in second.err
    process.send_signal(signal.SIGINT)
    await finish(process)
    assert running_hub(home) is None


def test_without_a_hub_it_loads_no_server_and_no_http(project: Path) -> None:
    script = (
        "import sys\n"
        "from farsteer.cli.main import main\n"
        "code = main(['exec', 'say hello'])\n"
        "heavy = {'starlette', 'uvicorn', 'socketio', 'engineio', 'httpx', 'rich', 'websockets'} & set(sys.modules)\n"
        "sys.exit(f'loaded {heavy}' if heavy else code)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", script], cwd=project, capture_output=True, text=True, timeout=45
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "hello\n", "")
