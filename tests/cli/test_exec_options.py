"""`farsteer exec`: what it takes from stdin, the options it shares with Droid's own command, and its output formats."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
from asyncio.subprocess import PIPE, Process
from pathlib import Path
from typing import Any

import psutil
import pytest

from tests.cli.command import SECONDS, Result, farsteer, finish, start
from tests.cli.conftest import RunCommand
from tests.support.eventually import eventually
from tests.support.processes import is_alive
from tests.support.stack import Stack

pytestmark = pytest.mark.slow

TWO_MESSAGES = "say one\nsay two"


def lines(result: Result) -> list[dict[str, Any]]:
    return [json.loads(line) for line in result.lines]


async def test_piped_stdin_is_appended_to_the_prompt(project: Path) -> None:
    result = await farsteer("exec", "say this:", text="a\nb\n", cwd=project)
    assert result.out == "this:\n\na\nb\n"
    (project / "input.txt").write_text("from a file\n")
    with (project / "input.txt").open() as file:
        assert (await finish(await start("exec", "say this:", cwd=project, stdin=file))).out == (
            "this:\n\nfrom a file\n"
        )
    assert (await farsteer("exec", "say alone", text="", cwd=project)).out == "alone\n"
    assert (await farsteer("exec", "-", text="say only this", cwd=project)).out == "only this\n"


async def test_the_prompt_from_a_file(home: Path, project: Path, run_command: RunCommand) -> None:
    (project / "prompt.txt").write_text("say from a file")
    assert (await run_command("exec", "-f", str(project / "prompt.txt"))).out == "from a file\n"
    both = await run_command("exec", "-f", str(project / "prompt.txt"), "say more")
    assert (both.code, "one of them" in both.err) == (2, True)


async def test_a_pipe_that_stays_open_says_what_it_waits_for(project: Path) -> None:
    process = await start("exec", "say hello", cwd=project, stdin=PIPE)
    assert process.stdin is not None
    assert process.stderr is not None
    async with asyncio.timeout(SECONDS):
        assert b"/dev/null" in await process.stderr.readline()
    process.stdin.close()
    assert (await finish(process)).out == "hello\n"


async def test_two_messages_are_separated(home: Path, run_command: RunCommand) -> None:
    assert (await run_command("exec", TWO_MESSAGES)).out == "one\n\ntwo\n"


async def test_the_result_of_json_is_the_last_message(home: Path, run_command: RunCommand) -> None:
    (only,) = lines(await run_command("exec", "-o", "json", TWO_MESSAGES))
    assert (only["type"], only["result"]) == ("result", "two")


async def test_stream_json_is_what_droid_prints(home: Path, project: Path, run_command: RunCommand) -> None:
    prompt = "say one\nrun echo hello"
    printed = lines(
        await run_command("exec", "-o", "stream-json", "--auto", "high", "--cwd", str(project), prompt)
    )
    first, *entries, last = printed
    assert (first["type"], first["subtype"], first["cwd"]) == ("system", "init", str(project))
    assert {line["session_id"] for line in printed} == {first["session_id"]}
    said = [(line["role"], line["text"]) for line in entries if line["type"] == "message"]
    assert said[:2] == [("user", prompt), ("assistant", "one")]
    (call,) = [line for line in entries if line["type"] == "tool_call"]
    (done,) = [line for line in entries if line["type"] == "tool_result"]
    assert (call["toolName"], call["parameters"]["command"]) == ("Execute", "echo hello")
    assert (done["id"], done["isError"]) == (call["id"], False)
    assert "hello" in done["value"]
    assert (last["type"], last["finalText"], last["numTurns"]) == ("completion", said[-1][1], 2)
    assert call["messageId"] == next(line["id"] for line in entries if line.get("text") == "one")
    failing = lines(await run_command("exec", "-o", "stream-json", "--auto", "high", "run ls /nowhere"))
    (done,) = [line for line in failing if line["type"] == "tool_result"]
    assert (done["isError"], done["error"]["type"], "value" in done) == (True, "tool_error", False)
    assert done["error"]["message"].startswith("Error: Command failed (exit code: 2)\nls: ")
    failed = lines(await run_command("exec", "-o", "stream-json", "fail no such luck"))[-1]
    assert (failed["type"], failed["source"]) == ("error", "cli")
    assert "no such luck" in failed["message"]


@pytest.mark.parametrize(("level", "code"), [("off", 4), ("low", 0), ("medium", 0), ("high", 0)])
async def test_autonomy_levels(
    home: Path, project: Path, run_command: RunCommand, level: str, code: int
) -> None:
    result = await run_command("exec", "--auto", level, "--cwd", str(project), "write a.txt hello")
    assert (result.code, (project / "a.txt").exists()) == (code, code == 0)


async def test_a_continued_session_gets_the_settings_of_the_call(hub: Stack, run_command: RunCommand) -> None:
    account = await hub.sign_in()
    session = await hub.create(account)
    argv = ["exec", "-s", session[:8], "-m", "demo-1-mini", "-r", "high", "--auto", "high"]
    assert (await run_command(*argv, "write a.txt hello")).code == 0
    await account.shows(
        session, model="demo-1-mini", modelReasoningEffort="high", permissionMode="yolo", status="idle"
    )


@pytest.mark.parametrize(
    ("argv", "said"),
    [
        (["--mode", "x", "hello"], "did you mean --model?"),
        (["--modle", "x", "hello"], "did you mean --model?"),
        (
            ["--input-format", "stream-jsonrpc", "-o", "stream-jsonrpc", "--mode", "x"],
            "did you mean --model?",
        ),
        (["--session_id=3f2a", "hello"], "did you mean --session-id?"),
        (["--zzzzzz", "hello"], "farsteer exec --help"),
        (["hello", "world"], "quote"),
        (["--auto", "extreme", "hello"], "'low', 'medium', 'high'"),
        (["--effort", "huge", "hello"], "'low', 'medium', 'high'"),
        (["--permission-mode", "reckless", "hello"], "'default'"),
    ],
)
async def test_what_is_refused_says_what_is_right(
    run_command: RunCommand, argv: list[str], said: str
) -> None:
    result = await run_command("exec", *argv)
    assert result.code == 2
    assert said in result.err


async def close_output_after_a_line(process: Process) -> None:
    """Do what `head -1` does."""
    assert process.stdout is not None
    async with asyncio.timeout(SECONDS):
        assert await process.stdout.readline() == b"one\n"
    process.stdout._transport.close()  # pyright: ignore[reportAttributeAccessIssue]


@pytest.mark.parametrize("rest", ["hang", "slow 2000"])
async def test_when_nobody_reads_the_answer_the_agent_ends(project: Path, rest: str) -> None:
    process = await start("exec", f"say one\n{rest}", cwd=project)
    assert process.stdout is not None
    async with asyncio.timeout(SECONDS):
        assert await process.stdout.readline() == b"one\n"
    agents = psutil.Process(process.pid).children(recursive=True)
    assert agents
    process.stdout._transport.close()  # pyright: ignore[reportAttributeAccessIssue]
    result = await finish(process)
    assert (result.code, result.err) == (0, "")
    await eventually(lambda: not any(is_alive(agent) for agent in agents))


@pytest.mark.parametrize("rest", ["hang", "slow 2000"])
async def test_when_nobody_reads_the_answer_the_agent_at_a_hub_ends(
    hub: Stack, project: Path, rest: str
) -> None:
    process = await start("exec", f"say one\n{rest}", cwd=project)
    await close_output_after_a_line(process)
    assert (await finish(process)).code == 0
    account = await hub.sign_in()
    [session] = (await account.get_json("/api/sessions"))["sessions"]
    await account.until(session["id"], "stopped")


async def test_an_answer_that_nobody_ever_reads_leaves_no_agent(hub: Stack, project: Path) -> None:
    process = await start("exec", "hang", cwd=project)
    assert process.stdout is not None
    process.stdout._transport.close()  # pyright: ignore[reportAttributeAccessIssue]
    assert (await finish(process)).code == 0
    account = await hub.sign_in()
    [session] = (await account.get_json("/api/sessions"))["sessions"]
    await account.until(session["id"], "stopped")


async def test_a_continued_session_is_only_interrupted_when_nobody_reads_the_answer(
    hub: Stack, project: Path
) -> None:
    account = await hub.sign_in()
    session = await hub.create(account)
    process = await start("exec", "-s", session, "say one\nhang", cwd=project)
    await close_output_after_a_line(process)
    assert (await finish(process)).code == 0
    await account.until(session, "idle")


def test_in_a_shell(project: Path) -> None:
    command = f"{sys.executable} -m farsteer exec 'say one\nhang' < /dev/null | head -1"
    done = subprocess.run(
        ["/bin/sh", "-c", command], cwd=project, capture_output=True, text=True, timeout=SECONDS, check=True
    )
    assert (done.stdout, done.stderr) == ("one\n", "")
