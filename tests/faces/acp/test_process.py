"""`farsteer acp` as an editor starts it: alone, beside a hub, killed; nothing but protocol on its stdout."""

from __future__ import annotations

import asyncio
import json
import signal
import sys
from pathlib import Path

import pytest

from farsteer.client.config import login_file
from tests.cli.command import farsteer, finish, start
from tests.support.acp_client import choosing, editor, forever
from tests.support.stack import OWNER, announce
from tests.support.stack import farsteer as stack_at


@pytest.fixture
def desk(home: Path) -> Path:
    path = home.parent / "project"
    path.mkdir(exist_ok=True)
    return path


async def test_alone_it_has_a_hub_of_its_own_and_leaves_nothing_behind(home: Path, desk: Path) -> None:
    async with editor(answer=choosing("allow_once"), cwd=desk) as zed:
        hello = await zed.initialize(auth={"terminal": True})
        assert hello["authMethods"][0]["args"] == ["login"]
        session = (await zed.new(str(desk)))["sessionId"]
        assert await zed.prompt(session, "write a.txt x\nrun echo noise; echo noise >&2") == "end_turn"
        assert (desk / "a.txt").exists()
    # What it began is there for the next one.
    async with editor("--agent", "demo", cwd=desk) as again:
        await again.initialize()
        (listed,) = (await again.call("session/list"))["sessions"]
        assert listed["sessionId"] == session
        await again.load(session)
        assert "a.txt is done." in again.text()
    assert again.process.returncode == 0


async def test_one_that_is_started_anew_waits_for_the_end_of_the_one_before(home: Path, desk: Path) -> None:
    async with editor(cwd=desk) as before:
        await before.initialize()
        session = (await before.new(str(desk)))["sessionId"]
        async with editor(cwd=desk) as after:
            await after.initialize()
            asking = asyncio.create_task(after.call("session/list"))
            before.road.close()
            assert [one["sessionId"] for one in (await asking)["sessions"]] == [session]


async def test_the_end_of_its_input_and_a_signal_end_it_with_every_request_answered(
    home: Path, desk: Path
) -> None:
    for ends in ("input", "signal"):
        async with editor(answer=forever, cwd=desk) as zed:
            await zed.initialize()
            session = (await zed.new(str(desk)))["sessionId"]
            running = zed.start(session, "write a.txt x\nslow 1000")
            await zed.until_asked()
            if ends == "signal":
                zed.process.send_signal(signal.SIGTERM)
            else:
                zed.road.close()
            async with asyncio.timeout(30):
                assert await zed.process.wait() == 0
            (error,) = await asyncio.gather(running, return_exceptions=True)
            assert isinstance(error, Exception)
        assert not {key for key in zed.wire.open if key[0]}


async def test_the_death_of_the_editor_stops_no_turn_and_coming_back_loses_nothing(
    home: Path, desk: Path
) -> None:
    async with stack_at(home) as stack:
        account = await stack.sign_in()
        announce(stack)
        async with editor(cwd=desk) as zed:
            await zed.initialize()
            session = (await zed.new(str(desk)))["sessionId"]
            running = zed.start(session, "slow 60")
            await zed.until_update("agent_message_chunk")
            zed.process.kill()
            await asyncio.gather(running, return_exceptions=True)
            assert (await account.session(session))["status"] == "working"
            async with editor(cwd=desk) as again:
                await again.initialize()
                await again.load(session)
                whole = " ".join(f"word{n}" for n in range(1, 61))
                await again.until(lambda: again.text() == whole)
                # Begun in the editor, gone on with on the web, seen in the editor.
                await account.turn(session, "say from the web")
                await again.until(lambda: again.text().endswith("from the web"))
        ended = [one["content"] for one in await account.messages(session, limit=200)]
        assert [one["reason"] for one in ended if one["kind"] == "turn_end"] == ["end_turn", "end_turn"]


async def test_a_hub_elsewhere_is_logged_in_to_as_an_editor_does_it(home: Path, desk: Path) -> None:
    far = home.parent / "far"
    async with stack_at(far) as stack:
        # What the editor was told to run is its own command and `login` behind it.
        process = await start("acp", "--hub", stack.url, "login", stdin=asyncio.subprocess.PIPE)
        done = await finish(process, f"{OWNER}\n")
        assert done.code == 0, done.err
        assert login_file(home).stat().st_mode & 0o777 == 0o600
        account = await stack.sign_in()
        async with editor("--machine", stack_machine(await account.get_json("/api/machines"))) as zed:
            await zed.initialize()
            session = (await zed.new(str(desk)))["sessionId"]
            await zed.prompt(session, "say far away")
            assert (await account.session(session))["source"] == "acp"
            assert await zed.call("logout") == {}
        assert not login_file(home).exists()
        wrong = await start("acp", "--hub", stack.url, "login", stdin=asyncio.subprocess.PIPE)
        assert (await finish(wrong, "no-such-token\n")).code != 0


def stack_machine(found: dict[str, list[dict[str, str]]]) -> str:
    return found["machines"][0]["id"]


@pytest.mark.parametrize("name", ["zed", "jetbrains", "nvim", "toad"])
async def test_the_configuration_it_prints_can_be_used_as_it_is(home: Path, name: str) -> None:
    told = await farsteer("acp", "--print-config", name, "--agent", "droid", "--lenient")
    assert told.code == 0
    assert told.err.startswith("for ")
    if name in ("zed", "jetbrains"):
        (server,) = json.loads(told.out)["agent_servers"].values()
        command = [server["command"], *server["args"]]
    else:
        command = told.out.replace('"', " ").replace("'", " ").replace(",", " ").split()
        command = command[next(n for n, word in enumerate(command) if Path(word).is_absolute()) :]
        end = command.index("--lenient") + 1
        command = command[:end]
    assert command[-4:] == ["acp", "--agent", "droid", "--lenient"]
    process = await asyncio.create_subprocess_exec(
        *command[:-4], "--version", stdout=asyncio.subprocess.PIPE, stdin=asyncio.subprocess.DEVNULL
    )
    out, _ = await process.communicate()
    assert out.startswith(b"farsteer ")


async def test_little_is_loaded_before_the_greeting() -> None:
    """An editor waits for it. What only sessions need, and what only a hub needs, comes after it."""
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
