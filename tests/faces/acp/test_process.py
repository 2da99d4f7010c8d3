"""`farsteer acp` as a process: with its own hub, with a running hub, killed. Its stdout carries only protocol lines."""

from __future__ import annotations

import asyncio
import json
import signal
import sys
from pathlib import Path

import pytest

from farsteer.client.config import login_file
from tests.cli.command import farsteer, finish, start
from tests.support.acp_client import choose_option, editor_process, never_answer
from tests.support.stack import OWNER, announce
from tests.support.stack import farsteer as stack_at

pytestmark = pytest.mark.slow


@pytest.fixture
def project(home: Path) -> Path:
    path = home.parent / "project"
    path.mkdir(exist_ok=True)
    return path


async def test_without_a_running_hub_it_runs_its_own_and_keeps_the_sessions(
    home: Path, project: Path
) -> None:
    async with editor_process(answer=choose_option("allow_once"), cwd=project) as editor:
        hello = await editor.initialize(auth={"terminal": True})
        assert hello["authMethods"][0]["args"] == ["login"]
        session = (await editor.new(str(project)))["sessionId"]
        assert await editor.prompt(session, "write a.txt x\nrun echo noise; echo noise >&2") == "end_turn"
        assert (project / "a.txt").exists()
    # The next process finds the session.
    async with editor_process("--agent", "demo", cwd=project) as again:
        await again.initialize()
        (listed,) = (await again.call("session/list"))["sessions"]
        assert listed["sessionId"] == session
        await again.load(session)
        assert "a.txt is done." in again.text()
    assert again.process.returncode == 0


async def test_a_new_process_waits_until_the_old_one_has_released_the_home(home: Path, project: Path) -> None:
    async with editor_process(cwd=project) as before:
        await before.initialize()
        session = (await before.new(str(project)))["sessionId"]
        async with editor_process(cwd=project) as after:
            await after.initialize()
            asking = asyncio.create_task(after.call("session/list"))
            before.close_input()
            assert [one["sessionId"] for one in (await asking)["sessions"]] == [session]


async def test_end_of_input_and_sigterm_stop_it_after_every_request_is_answered(
    home: Path, project: Path
) -> None:
    for ends in ("input", "signal"):
        async with editor_process(answer=never_answer, cwd=project) as editor:
            await editor.initialize()
            session = (await editor.new(str(project)))["sessionId"]
            running = editor.start_prompt(session, "write a.txt x\nslow 1000")
            await editor.wait_for_requests()
            if ends == "signal":
                editor.process.send_signal(signal.SIGTERM)
            else:
                editor.close_input()
            async with asyncio.timeout(30):
                assert await editor.process.wait() == 0
            (error,) = await asyncio.gather(running, return_exceptions=True)
            assert isinstance(error, Exception)
        assert not {key for key in editor.wire.open_requests if key[0]}


async def test_killing_it_stops_no_turn_and_loading_again_loses_nothing(home: Path, project: Path) -> None:
    async with stack_at(home) as stack:
        account = await stack.sign_in()
        announce(stack)
        async with editor_process(cwd=project) as editor:
            await editor.initialize()
            session = (await editor.new(str(project)))["sessionId"]
            running = editor.start_prompt(session, "slow 60")
            await editor.wait_for_update("agent_message_chunk")
            editor.process.kill()
            await asyncio.gather(running, return_exceptions=True)
            assert (await account.session(session))["status"] == "working"
            async with editor_process(cwd=project) as again:
                await again.initialize()
                await again.load(session)
                whole = " ".join(f"word{n}" for n in range(1, 61))
                await again.wait_until(lambda: again.text() == whole)
                # A turn that is started over REST appears in the editor.
                await account.turn(session, "say from the web")
                await again.wait_until(lambda: again.text().endswith("from the web"))
        ended = [one["content"] for one in await account.messages(session, limit=200)]
        assert [one["reason"] for one in ended if one["kind"] == "turn_end"] == ["end_turn", "end_turn"]


async def test_logging_in_to_another_hub_and_out_of_it(home: Path, project: Path) -> None:
    far = home.parent / "far"
    async with stack_at(far) as stack:
        # An editor runs its own command with `login` appended.
        process = await start("acp", "--hub", stack.url, "login", stdin=asyncio.subprocess.PIPE)
        done = await finish(process, f"{OWNER}\n")
        assert done.code == 0, done.err
        assert login_file(home).stat().st_mode & 0o777 == 0o600
        account = await stack.sign_in()
        async with editor_process(
            "--machine", stack_machine(await account.get_json("/api/machines"))
        ) as editor:
            await editor.initialize()
            session = (await editor.new(str(project)))["sessionId"]
            await editor.prompt(session, "say far away")
            assert (await account.session(session))["source"] == "acp"
            assert await editor.call("logout") == {}
        assert not login_file(home).exists()
        wrong = await start("acp", "--hub", stack.url, "login", stdin=asyncio.subprocess.PIPE)
        assert (await finish(wrong, "no-such-token\n")).code != 0


def stack_machine(found: dict[str, list[dict[str, str]]]) -> str:
    return found["machines"][0]["id"]


@pytest.mark.parametrize("name", ["zed", "jetbrains", "nvim", "toad"])
async def test_the_printed_configuration_starts_farsteer(home: Path, name: str) -> None:
    result = await farsteer("acp", "--print-config", name, "--agent", "droid", "--lenient")
    assert result.code == 0
    assert result.err.startswith("for ")
    if name in ("zed", "jetbrains"):
        (server,) = json.loads(result.out)["agent_servers"].values()
        command = [server["command"], *server["args"]]
    else:
        command = result.out.replace('"', " ").replace("'", " ").replace(",", " ").split()
        command = command[next(n for n, word in enumerate(command) if Path(word).is_absolute()) :]
        end = command.index("--lenient") + 1
        command = command[:end]
    assert command[-4:] == ["acp", "--agent", "droid", "--lenient"]
    process = await asyncio.create_subprocess_exec(
        *command[:-4], "--version", stdout=asyncio.subprocess.PIPE, stdin=asyncio.subprocess.DEVNULL
    )
    out, _ = await process.communicate()
    assert out.startswith(b"farsteer ")


async def test_little_is_imported_before_initialize_is_answered() -> None:
    """Editors wait for `initialize`, so what only sessions or a hub need is imported after it."""
    heavy = ("farsteer.core.api", "farsteer.hub", "farsteer.client", "httpx", "rich", "starlette")
    code = (
        "import sys; from farsteer.cli import main; from importlib import import_module as load; "
        "load('farsteer.cli.commands.acp'); load('farsteer.faces.acp.server'); load('farsteer.jsonrpc.stdio'); "
        f"print([name for name in {heavy!r} if name in sys.modules])"
    )
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-c", code, stdin=asyncio.subprocess.DEVNULL, stdout=asyncio.subprocess.PIPE
    )
    out, _ = await process.communicate()
    assert out.decode().strip() == "['farsteer.client']"
