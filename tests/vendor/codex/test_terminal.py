"""Codex's own interface in a real terminal, on the server that others use at the same time."""

from __future__ import annotations

import json
import signal
from pathlib import Path
from typing import Any

import pytest

from tests.support.model import ScriptedModel
from tests.support.pty_screen import ENTER, ESCAPE, PtyProgram
from tests.support.stack import Account
from tests.vendor.codex.conftest import CODE_MODE_MODEL, MODEL
from tests.vendor.terminal import log_until, of, open_session, run, said, turn_ends
from tests.vendor.up import Up, approval, remembered, seq_of, texts, until

READY = "? for shortcuts"
"""What Codex shows when it takes what is typed."""

ASKS = "Would you like to run the following command?"

pytestmark = [pytest.mark.vendor, pytest.mark.timeout(180)]


@pytest.fixture
def up(codex: Path, tmp_path: Path) -> Up:
    desk = tmp_path / "desk"
    desk.mkdir()
    with (codex / "config.toml").open("a") as config:
        config.write(f'[projects."{desk.resolve()}"]\ntrust_level = "trusted"\n')
        # Codex would offer a newer model first.
        config.write(f'[notice.model_migrations]\n"{MODEL}" = "{CODE_MODE_MODEL}"\n')
    return Up("codex", desk.resolve(), tmp_path / "up.log")


async def ready(account: Account, terminal: PtyProgram) -> str:
    """Wait until the person can type, and return the session."""
    await terminal.shows(READY)
    return await open_session(account)


async def answer(account: Account, session: str, how: str = "approve", **body: Any) -> dict[str, Any]:
    """Answer from elsewhere what the session waits for, and return what that was."""
    asked = await approval(account, session)
    await account.post_json(f"/api/sessions/{session}/permissions/{asked['id']}/{how}", body)
    return asked


async def test_a_turn_in_the_terminal_is_in_the_log(up: Up) -> None:
    async with up.started() as account, run(up) as terminal:
        session = await ready(account, terminal)
        prompt = "hello [[say:hi]][[bash:echo walnut]][[say:finished]]"
        await terminal.type(prompt)
        log = await turn_ends(account, session, "end_turn")
        kinds = [one["kind"] for one in log]
        inside = kinds[kinds.index("turn_start") : kinds.index("turn_end")]
        assert inside[:2] == ["turn_start", "user_message"]
        assert await said(account, session) == [prompt]
        assert of(log, "user_message")[0]["sentFrom"] == "terminal"
        assert [one["text"] for one in of(log, "agent_message")] == ["hi", "finished"]
        (call,) = of(log, "tool_call")
        result = of(log, "tool_call_update")[-1]
        assert (result["toolCallId"], result["status"]) == (call["toolCallId"], "completed")
        assert "walnut" in str(result)
        found = await until(account, session, lambda found: found["usage"]["inputTokens"] == 200)
        assert found["usage"]["outputTokens"] == 20
    assert up.agents() == []


async def test_messages_from_here_and_there_appear_on_both_sides(up: Up) -> None:
    spoken: list[str] = []
    async with up.started() as account, run(up) as terminal:
        session = await ready(account, terminal)
        native_id = (await account.session(session))["nativeId"]
        for number in range(3):
            spoken.append(f"typed{number}")
            await terminal.type(spoken[-1])
            await turn_ends(account, session, *["end_turn"] * len(spoken))
            spoken.append(f"sent{number}")
            await account.say(session, spoken[-1])
            await turn_ends(account, session, *["end_turn"] * len(spoken))
            await terminal.shows(f"echo: sent{number}")
        assert await said(account, session) == spoken
        await terminal.type("[[history]]")
        await turn_ends(account, session, *["end_turn"] * 7)
        shown = [head for _, head in json.loads((await texts(account, session))[-1])["history"]]
        assert [one for one in shown if one.startswith(("typed", "sent"))] == spoken
        found = await account.session(session)
        assert (found["nativeId"], found["inTerminal"]) == (native_id, True)
        assert "goes on elsewhere" not in terminal.text
    assert up.agents() == []


@pytest.mark.parametrize(("how", "made"), [("approve", True), ("deny", False)])
async def test_a_permission_is_answered_from_elsewhere(up: Up, how: str, made: bool) -> None:
    async with up.started() as account, run(up) as terminal:
        session = await ready(account, terminal)
        await terminal.type("[[escalate:touch made]][[say:finished]]")
        asked = await approval(account, session)
        assert asked["kind"] == "permission"
        await terminal.shows("touch made")
        await terminal.shows(ASKS)
        assert not (up.desk / "made").exists()
        await answer(account, session, how)
        await turn_ends(account, session, "end_turn")
        assert (up.desk / "made").exists() is made
        await terminal.until(lambda: ASKS not in terminal.shown)


@pytest.mark.parametrize(("key", "made", "end"), [(b"y", True, "end_turn"), (ESCAPE, False, "cancelled")])
async def test_a_permission_that_is_answered_in_the_terminal_is_withdrawn(
    up: Up, key: bytes, made: bool, end: str
) -> None:
    async with up.started() as account, run(up) as terminal:
        session = await ready(account, terminal)
        await terminal.type("[[escalate:touch made]][[say:finished]]")
        await approval(account, session)
        await terminal.shows(ASKS)
        await terminal.press_until(key, lambda: ASKS not in terminal.shown)
        log = await turn_ends(account, session, end)
        assert (up.desk / "made").exists() is made
        assert [one["outcome"] for one in of(log, "approval_resolved")] == ["cancelled"]
        assert (await account.session(session))["approvals"] == []


async def test_a_permission_of_a_turn_from_elsewhere_is_answered_in_the_terminal(up: Up) -> None:
    async with up.started() as account, run(up) as terminal:
        session = await ready(account, terminal)
        await account.say(session, "[[escalate:touch made]][[say:finished]]")
        await terminal.shows(ASKS)
        await terminal.press_until(b"y", lambda: ASKS not in terminal.shown)
        await turn_ends(account, session, "end_turn")
        assert (up.desk / "made").exists()


async def test_a_message_that_is_sent_during_a_terminal_turn_waits_for_its_end(
    up: Up, model: ScriptedModel
) -> None:
    async with up.started() as account, run(up) as terminal:
        session = await ready(account, terminal)
        await terminal.type("[[say:so far]][[meet:point:2]][[say:finished]]")
        await log_until(account, session, lambda log: bool(of(log, "turn_start")))
        await account.say(session, "from elsewhere")
        assert len((await account.session(session))["queue"]) == 1
        model.meet("point")
        await turn_ends(account, session, "end_turn", "end_turn")
        assert (await texts(account, session))[-1] == "echo: from elsewhere"


async def test_an_interrupt_from_either_side_cancels_the_turn(up: Up) -> None:
    async with up.started() as account, run(up) as terminal:
        session = await ready(account, terminal)
        await terminal.type("[[say:so far ]][[hang]]")
        await log_until(account, session, lambda log: bool(of(log, "turn_start")))
        await terminal.shows("so far")
        terminal.press(ESCAPE)
        await turn_ends(account, session, "cancelled")
        await account.say(session, "[[new]][[say:once more ]][[hang]]")
        await log_until(account, session, lambda log: len(of(log, "turn_start")) == 2)
        await terminal.shows("once more")
        await account.post_json(f"/api/sessions/{session}/abort")
        await turn_ends(account, session, "cancelled", "cancelled")
        assert (await account.session(session))["inTerminal"]


async def test_the_person_quits_and_the_session_goes_on(up: Up) -> None:
    async with up.started() as account:
        async with run(up) as terminal:
            session = await ready(account, terminal)
            await terminal.type("apricot")
            await turn_ends(account, session, "end_turn")
            await terminal.type("/quit")
            assert await terminal.exit_code() == 0
            assert terminal.modes_now == terminal.modes
        await until(account, session, lambda found: not found["inTerminal"])
        assert await remembered(account, session) == ["apricot", "echo: apricot"]
        async with run(up, session=session) as terminal:
            await until(account, session, lambda found: found["inTerminal"])
            await terminal.shows(READY)
            await terminal.shows("echo: apricot")
            await terminal.type("walnut")
            await turn_ends(account, session, *["end_turn"] * 3)
    assert up.agents() == []


async def test_kill_9_of_the_command_leaves_the_session_usable(up: Up) -> None:
    async with up.started() as account, run(up) as terminal:
        session = await ready(account, terminal)
        await terminal.type("apricot")
        await turn_ends(account, session, "end_turn")
        terminal.process.kill()
        await until(account, session, lambda found: not found["inTerminal"])
        assert await remembered(account, session) == ["apricot", "echo: apricot"]
    assert up.agents() == []


async def test_kill_9_of_the_runner_brings_the_terminal_back(up: Up) -> None:
    async with up.started() as account, run(up) as terminal:
        session = await ready(account, terminal)
        await terminal.type("apricot")
        await turn_ends(account, session, "end_turn")
        await up.end(signal.SIGKILL)
        await terminal.type("meanwhile")
        await terminal.shows("echo: meanwhile")
        terminal.clear()
        async with up.started() as account:
            await until(account, session, lambda found: found["inTerminal"])
            await terminal.shows(READY)
            await terminal.type("walnut")
            await turn_ends(account, session, "end_turn", "end_turn")
            assert await said(account, session) == ["apricot", "meanwhile", "walnut"]
            assert (await texts(account, session)).count("echo: meanwhile") == 1
            told = await remembered(account, session)
            assert [one for one in told if not one.startswith("echo")] == ["apricot", "meanwhile", "walnut"]
    assert up.agents() == []


async def test_stop_from_elsewhere_ends_the_interface_and_enter_brings_it_back(up: Up) -> None:
    async with up.started() as account, run(up) as terminal:
        session = await ready(account, terminal)
        await terminal.type("apricot")
        await turn_ends(account, session, "end_turn")
        await account.post_json(f"/api/sessions/{session}/stop")
        await until(account, session, lambda found: found["status"] == "stopped" and not found["inTerminal"])
        await terminal.shows("Enter takes it back")
        assert up.agents() == []
        terminal.clear()
        await terminal.press_until(ENTER, lambda: b"the conversation comes here" in terminal.output)
        await until(account, session, lambda found: found["inTerminal"])
        await terminal.shows(READY)
        await terminal.type("walnut")
        await turn_ends(account, session, "end_turn", "end_turn")


async def test_rewind_from_elsewhere_while_the_terminal_is_open(up: Up) -> None:
    async with up.started() as account, run(up) as terminal:
        session = await ready(account, terminal)
        for number, text in enumerate(("apricot", "walnut"), 1):
            await terminal.type(text)
            await turn_ends(account, session, *["end_turn"] * number)
        await account.post_json(
            f"/api/sessions/{session}/rewind", {"seq": await seq_of(account, session, "walnut")}
        )
        await terminal.shows("Enter takes it back")
        assert await remembered(account, session) == ["apricot", "echo: apricot"]
