"""`farsteer exec` as a process: its output, its options and how it exits."""

from __future__ import annotations

import asyncio
import json
import signal
import subprocess
import sys
from pathlib import Path

import psutil
import pytest

from tests.cli.command import Result, finish, start
from tests.support.droid_client import FORMATS, Line, droid, note_of, of, request, text_of
from tests.support.processes import is_alive

pytestmark = pytest.mark.slow

HEAVY = ("httpx", "joserfc", "socketio", "starlette", "uvicorn", "websockets")


def lines(*requests: Line) -> str:
    return "".join(json.dumps(line) + "\n" for line in requests)


def initialize_request(project: Path, **more: object) -> Line:
    return request("1", "initialize_session", {"machineId": "m", "cwd": str(project), **more})


async def run_face(text: str, *options: str) -> Result:
    return await finish(await start("exec", *FORMATS, *options, stdin=asyncio.subprocess.PIPE), text)


async def test_piped_requests_are_completed_before_the_exit(project: Path) -> None:
    result = await run_face(
        lines(initialize_request(project), request("2", "add_user_message", {"text": "work 3 0.1"}))
    )
    assert (result.code, result.err) == (0, "")
    heard = [json.loads(line) for line in result.lines]
    notes = [note for line in heard if (note := note_of(line))]
    assert text_of(notes).endswith("Step 3 of 3 is done.")
    assert note_of(heard[-1]) == {"type": "droid_working_state_changed", "newState": "idle"}
    assert of(notes, "agent_turn_completed")[0]["reason"] == "completed"


async def test_stdin_and_stdout_may_be_files(project: Path, tmp_path: Path) -> None:
    asked, answered = tmp_path / "in", tmp_path / "out"
    asked.write_text(
        lines(initialize_request(project), request("2", "add_user_message", {"text": "say hello"}))
    )
    with asked.open() as source, answered.open("w") as target:
        process = await start("exec", *FORMATS, stdin=source, stdout=target)
        await process.communicate()
    assert process.returncode == 0
    notes = [note_of(json.loads(line)) for line in answered.read_text().splitlines()]
    assert text_of([note for note in notes if note]) == "hello"


async def test_server_libraries_are_not_imported(project: Path) -> None:
    script = (
        "import sys\n"
        "from farsteer.cli.main import main\n"
        f"main(['exec', *{FORMATS!r}])\n"
        f"print(*[name for name in {HEAVY!r} if name in sys.modules], file=sys.stderr)\n"
    )
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-c", script, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    result = await finish(process, lines(initialize_request(project)))
    assert json.loads(result.lines[-1])["result"]["sessionId"]
    assert result.err == "\n"


async def test_the_end_of_input_cancels_a_turn_with_an_open_approval(project: Path) -> None:
    async with droid() as client:
        await client.initialize(project)
        await client.ask("add_user_message", {"text": "run touch made.txt"})
        await client.until_request("request_permission")
        client.close()
        assert await client.ended() == 0
    notes = [note for line in client.lines if (note := note_of(line))]
    assert of(notes, "agent_turn_completed")[0]["reason"] == "cancelled"
    assert not (project / "made.txt").exists()


async def test_sigterm_cancels_the_turn_and_ends_the_agent(project: Path) -> None:
    async with droid() as client:
        await client.initialize(project, autonomyLevel="high")
        await client.ask("add_user_message", {"text": "run echo $$; sleep 60"})
        command = int((await client.until_note("tool_progress_update"))["update"]["text"])
        children = psutil.Process(client.process.pid).children(recursive=True)
        client.process.send_signal(signal.SIGTERM)
        assert await client.ended() == 0
    assert command in [child.pid for child in children]
    assert not [child for child in children if is_alive(child)]
    notes = [note for line in client.lines if (note := note_of(line))]
    assert of(notes, "agent_turn_completed")[0]["reason"] == "cancelled"


async def test_a_closed_output_ends_the_process(project: Path) -> None:
    async with droid() as client:
        await client.initialize(project)
        await client.ask("add_user_message", {"text": "work 1000 0.02"})
        await client.until_note("assistant_text_delta")
        client.hang_up()
        async with asyncio.timeout(20):
            assert await client.process.wait() == 0


async def test_closing_the_session_ends_the_process(project: Path) -> None:
    async with droid() as client:
        session = (await client.initialize(project))["sessionId"]
        await client.ask("add_user_message", {"text": "work 1000 0.05"})
        await client.until_note("assistant_text_delta")
        assert await client.ask("close_session", {"reason": "other"}) == {}
        assert await client.ended() == 0
    async with droid("--session-id", session) as client:
        assert text_of(await client.turn("what did I say?")) == "You said “work 1000 0.05”."


async def test_a_home_in_use_is_reported_to_the_client(project: Path) -> None:
    async with droid() as first:
        await first.initialize(project)
        async with droid() as second:
            error = (await second.call("initialize_session", {"machineId": "m", "cwd": str(project)}))[
                "error"
            ]
            assert error["code"] == -32603
            assert all(way in error["message"] for way in ("farsteer up", "--hub", "--home"))
            assert text_of(await first.turn("say undisturbed")) == "undisturbed"
            first.close()
            await first.ended()
            await second.initialize(project)
            assert text_of(await second.turn("say my turn")) == "my turn"


async def test_an_unknown_initial_session_fails(project: Path) -> None:
    result = await run_face("", "--session-id", "no-uuid")
    assert (result.code, result.out) == (1, "")
    assert "no such session" in result.err


async def test_a_free_uuid_on_the_command_line_is_the_id_of_the_first_session(project: Path) -> None:
    chosen = "0d2e1d9e-4a47-4a4b-8a8f-111111111111"
    async with droid("--session-id", chosen, "--cwd", str(project)) as client:
        assert (await client.ask("initialize_session", {"machineId": "m"}))["sessionId"] == chosen
        assert (await client.ask("initialize_session", {"machineId": "m"}))["sessionId"] != chosen
        assert (await client.ask("load_session", {"sessionId": chosen}))["session"]["messages"] == []


async def test_options_are_defaults_for_requests(project: Path) -> None:
    options = ("--cwd", str(project), "-m", "demo-1-mini", "--auto", "medium", "-r", "high")
    async with droid(*options, "--tag", "x") as client:
        settings = (await client.ask("initialize_session", {"machineId": "m"}))["settings"]
        assert (settings["modelId"], settings["autonomyLevel"], settings["reasoningEffort"]) == (
            "demo-1-mini",
            "medium",
            "high",
        )
        assert (
            text_of(await client.turn("model")) == "model demo-1-mini, effort high, permission mode safe-yolo"
        )


async def test_both_formats_are_needed(home: Path) -> None:
    result = await finish(await start("exec", "--input-format", "stream-jsonrpc"))
    assert result.code == 2
    assert "must both be stream-jsonrpc" in result.err
