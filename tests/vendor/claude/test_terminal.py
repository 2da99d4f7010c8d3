"""Claude Code's own interface in a real terminal, as a session that others answer, take over and give back."""

from __future__ import annotations

import asyncio
import json
import os
import shlex
import signal
from pathlib import Path
from typing import Any

import pytest

from tests.support.eventually import eventually
from tests.support.model import ScriptedModel
from tests.support.pty_screen import ENTER, ESCAPE, SUSPEND, PtyProgram
from tests.support.stack import OWNER, Account
from tests.vendor.pins import Pin
from tests.vendor.terminal import contents, log_until, of, open_session, run, said, turn_ends
from tests.vendor.up import WAIT, Up, approval, remembered, seq_of, texts, until

READY = "manual mode on"
"""What Claude Code shows when it takes what is typed."""
TAKES = b"the conversation comes here when nothing else waits"
ASKS = "Do you want to proceed?"

pytestmark = [pytest.mark.vendor, pytest.mark.timeout(180)]


@pytest.fixture
def up(claude: Pin, home: Path, tmp_path: Path) -> Up:
    desk = tmp_path / "desk"
    desk.mkdir()
    settings = {
        "hasCompletedOnboarding": True, "theme": "dark",
        "projects": {str(desk.resolve()): {"hasTrustDialogAccepted": True}},
        "customApiKeyResponses": {"approved": ["sk-test"], "rejected": []},
    }  # fmt: skip
    (home.parent / ".claude.json").write_text(json.dumps(settings))
    return Up("claude", desk.resolve(), tmp_path / "up.log")


async def ready(account: Account, terminal: PtyProgram) -> str:
    """Wait until the person can type, and return the session."""
    await terminal.shows(READY)
    return await open_session(account)


async def take_back(account: Account, terminal: PtyProgram, session: str) -> None:
    """Press Enter while the conversation is elsewhere, and wait until the person can type."""
    before = terminal.output.count(TAKES)
    terminal.clear()
    await terminal.press_until(ENTER, lambda: terminal.output.count(TAKES) > before)
    await until(account, session, lambda found: found["inTerminal"])
    await terminal.shows(READY)


async def answer(account: Account, session: str, how: str = "approve", **body: Any) -> dict[str, Any]:
    """Answer from elsewhere what the session waits for, and return what that was."""
    asked = await approval(account, session)
    await account.post_json(f"/api/sessions/{session}/permissions/{asked['id']}/{how}", body)
    return asked


async def history(account: Account, session: str) -> list[str]:
    """Return what the model was shown, as it told in its last answer."""
    return [head for _, head in json.loads((await texts(account, session))[-1])["history"]]


async def test_a_turn_in_the_terminal_is_in_the_log(up: Up) -> None:
    (up.desk / "note").write_text("walnut")
    async with up.started() as account, run(up) as terminal:
        session = await ready(account, terminal)
        prompt = f"hello [[say:hi]][[read:{up.desk}/note]][[say:finished]]"
        await terminal.type(prompt)
        log = await turn_ends(account, session, "end_turn")
        kinds = [one["kind"] for one in log]
        begin = kinds.index("turn_start")
        assert kinds[begin:] == [
            "turn_start", "user_message", "agent_message", "tool_call", "tool_call_update", "agent_message",
            "usage_update", "turn_end",
        ]  # fmt: skip
        (message,) = of(log, "user_message")
        assert (message["text"], message["sentFrom"]) == (prompt, "terminal")
        assert [one["text"] for one in of(log, "agent_message")] == ["hi", "finished"]
        (call,), (result,) = of(log, "tool_call"), of(log, "tool_call_update")
        assert (call["input"]["file_path"], result["status"]) == (f"{up.desk}/note", "completed")
        assert "walnut" in str(result)
        (usage,) = of(log, "usage_update")
        assert (usage["inputTokens"], usage["outputTokens"]) == (200, 20)
        assert (await account.session(session))["nativeId"] == session
    assert up.agents() == []


async def test_a_permission_is_allowed_and_another_denied_from_elsewhere(up: Up) -> None:
    async with up.started() as account, run(up) as terminal:
        session = await ready(account, terminal)
        await terminal.type("[[bash:touch allowed]][[bash:touch denied]][[say:finished]]")
        asked = await approval(account, session)
        log = await contents(account, session)
        (call,) = of(log, "tool_call")
        assert (asked["kind"], asked["toolCallId"]) == ("permission", call["toolCallId"])
        await terminal.shows(ASKS)
        assert not (up.desk / "allowed").exists()
        await answer(account, session)
        await log_until(account, session, lambda log: len(of(log, "approval_requested")) == 2)
        assert (up.desk / "allowed").exists()
        await answer(account, session, "deny")
        log = await turn_ends(account, session, "end_turn")
        assert not (up.desk / "denied").exists()
        assert [one["status"] for one in of(log, "tool_call_update")] == ["completed", "failed"]
        assert [one["outcome"] for one in of(log, "approval_resolved")] == ["approved", "denied"]
        await terminal.until(lambda: ASKS not in terminal.shown)
        assert (await account.session(session))["inTerminal"]


async def test_a_permission_that_is_granted_in_the_terminal_is_withdrawn_with_the_result(up: Up) -> None:
    async with up.started() as account, run(up) as terminal:
        session = await ready(account, terminal)
        await terminal.type("[[bash:touch made]][[say:finished]]")
        await approval(account, session)
        await terminal.shows(ASKS)
        await terminal.press_until(b"1", lambda: ASKS not in terminal.shown)
        log = await turn_ends(account, session, "end_turn")
        assert (up.desk / "made").exists()
        assert [one["outcome"] for one in of(log, "approval_resolved")] == ["cancelled"]
        assert [one["status"] for one in of(log, "tool_call_update")] == ["completed"]


async def test_a_permission_that_is_denied_in_the_terminal_is_withdrawn(up: Up) -> None:
    async with up.started() as account, run(up) as terminal:
        session = await ready(account, terminal)
        await terminal.type("[[bash:touch made]]")
        await approval(account, session)
        await terminal.shows(ASKS)
        await terminal.press_until(ESCAPE, lambda: ASKS not in terminal.shown)
        log = await turn_ends(account, session, "cancelled")
        assert [one["outcome"] for one in of(log, "approval_resolved")] == ["cancelled"]
        assert not (up.desk / "made").exists()


async def test_several_permissions_at_once(up: Up) -> None:
    async with up.started() as account, run(up) as terminal:
        session = await ready(account, terminal)
        await terminal.type("[[bash:touch first]][[and]][[bash:touch second]][[say:finished]]")
        for name in ("first", "second"):
            asked = await answer(account, session)
            log = await contents(account, session)
            call = next(one for one in of(log, "tool_call") if name in str(one))
            assert asked["toolCallId"] == call["toolCallId"]
            await until(account, session, lambda found, old=asked["id"]: old not in str(found["approvals"]))
        await turn_ends(account, session, "end_turn")
        assert (up.desk / "first").exists()
        assert (up.desk / "second").exists()


async def test_a_question_is_answered_from_elsewhere(up: Up) -> None:
    async with up.started() as account, run(up) as terminal:
        session = await ready(account, terminal)
        await terminal.type("[[ask:Which color?:Red|Blue]]")
        asked = await approval(account, session)
        assert asked["kind"] == "question"
        await answer(account, session, answers={asked["questions"][0]["id"]: ["Blue"]})
        await turn_ends(account, session, "end_turn")
        assert "Blue" in (await texts(account, session))[-1]


async def test_a_plan_is_approved_from_elsewhere(up: Up) -> None:
    async with up.started() as account, run(up, mode="plan") as terminal:
        await terminal.shows("plan mode on")
        session = await open_session(account)
        await terminal.type("[[plan:first this, then that]][[bash:touch made]][[say:finished]]")
        asked = await approval(account, session)
        assert (asked["kind"], asked["plan"]) == ("plan", "first this, then that")
        await answer(account, session)
        asked = await approval(account, session)
        await answer(account, session)
        await turn_ends(account, session, "end_turn")
        assert (up.desk / "made").exists()


async def test_a_message_from_elsewhere_takes_over_and_enter_takes_back(up: Up) -> None:
    """Three times back and forth: each message is exactly once in the log and in what the model is shown."""
    spoken: list[str] = []
    async with up.started() as account, run(up) as terminal:
        session = await ready(account, terminal)
        for number in range(3):
            spoken.append(f"typed{number}")
            await terminal.type(spoken[-1])
            await turn_ends(account, session, *["end_turn"] * len(spoken))
            spoken.append(f"sent{number}")
            await account.say(session, spoken[-1])
            await turn_ends(account, session, *["end_turn"] * len(spoken))
            await terminal.told(
                "this conversation goes on elsewhere (a message was sent from elsewhere)", number + 1
            )
            await terminal.shows(f"echo: sent{number}")
            found = await account.session(session)
            assert (found["nativeId"], found["inTerminal"]) == (session, False)
            await take_back(account, terminal, session)
        assert await said(account, session) == spoken
        await terminal.type("[[history]]")
        await turn_ends(account, session, *["end_turn"] * 7)
        shown = await history(account, session)
        assert [one for one in shown if not one.startswith("echo")] == [*spoken, "[[history]]"]
        assert len(await texts(account, session)) == 7
    assert up.agents() == []


async def test_a_message_that_is_sent_during_a_terminal_turn_waits_for_its_end(
    up: Up, model: ScriptedModel
) -> None:
    async with up.started() as account, run(up) as terminal:
        session = await ready(account, terminal)
        await terminal.type("[[say:so far]][[meet:point:2]][[say:finished]]")
        await log_until(account, session, lambda log: bool(of(log, "turn_start")))
        await account.say(session, "from elsewhere")
        found = await account.session(session)
        assert (len(found["queue"]), found["inTerminal"]) == (1, True)
        await asyncio.to_thread(model.meet, "point")
        await turn_ends(account, session, "end_turn", "end_turn")
        assert (await texts(account, session))[-1] == "echo: from elsewhere"
        assert (await said(account, session))[-1] == "from elsewhere"


async def test_escape_in_the_terminal_cancels_the_turn(up: Up, model: ScriptedModel) -> None:
    async with up.started() as account, run(up) as terminal:
        session = await ready(account, terminal)
        await terminal.type("[[say:so far ]][[hang]]")
        await log_until(account, session, lambda log: bool(of(log, "turn_start")))
        await terminal.shows("so far")
        terminal.press(ESCAPE)
        await turn_ends(account, session, "cancelled")
        assert (await account.session(session))["status"] == "idle"


async def test_the_person_quits_and_the_conversation_goes_on_elsewhere(up: Up) -> None:
    async with up.started() as account:
        async with run(up) as terminal:
            session = await ready(account, terminal)
            await terminal.type("apricot")
            await turn_ends(account, session, "end_turn")
            await terminal.type("/exit")
            assert await terminal.exit_code() == 0
            assert terminal.modes_now == terminal.modes
        found = await until(account, session, lambda found: found["status"] == "stopped")
        assert not found["inTerminal"]
        assert up.agents() == []
        assert await remembered(account, session) == ["apricot", "echo: apricot"]
        async with run(up, session=session) as terminal:
            await until(account, session, lambda found: found["inTerminal"])
            await terminal.shows(READY)
            await terminal.type("[[history]]")
            await turn_ends(account, session, *["end_turn"] * 3)
            assert (await history(account, session))[:2] == ["apricot", "echo: apricot"]
    assert up.agents() == []


async def test_kill_9_of_the_command_leaves_no_process_and_a_usable_session(up: Up) -> None:
    async with up.started() as account, run(up) as terminal:
        session = await ready(account, terminal)
        await terminal.type("apricot")
        await turn_ends(account, session, "end_turn")
        terminal.process.kill()
        await until(account, session, lambda found: found["status"] == "stopped")
        assert up.agents() == []
        assert await remembered(account, session) == ["apricot", "echo: apricot"]


@pytest.mark.parametrize("spoken_before", [True, False])
async def test_what_is_said_while_no_runner_runs_is_in_the_log_once(up: Up, spoken_before: bool) -> None:
    spoken = ["apricot"] if spoken_before else []
    async with up.started() as account, run(up) as terminal:
        session = await ready(account, terminal)
        for text in spoken:
            await terminal.type(text)
            await turn_ends(account, session, "end_turn")
        await up.end(signal.SIGKILL)
        await terminal.type("walnut [[say:heard it]]")
        await terminal.shows("● heard it")
        terminal.clear()
        async with up.started() as account:
            await terminal.told("farsteer: the runner has ended")
            await until(account, session, lambda found: found["inTerminal"])
            spoken.append("walnut [[say:heard it]]")
            assert await said(account, session) == spoken
            assert (await texts(account, session)).count("heard it") == 1
            await terminal.shows(READY)
            await terminal.type("[[history]]")
            ends = ["end_turn"] * len(spoken)
            await turn_ends(account, session, *ends)
            shown = await history(account, session)
            assert [one for one in shown if one.startswith(("apricot", "walnut"))] == spoken
            assert await said(account, session) == [*spoken, "[[history]]"]
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
        await take_back(account, terminal, session)
        await terminal.type("[[history]]")
        await turn_ends(account, session, "end_turn", "end_turn")
        assert (await history(account, session))[:2] == ["apricot", "echo: apricot"]


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


async def test_an_error_of_the_model_fails_the_turn(up: Up) -> None:
    async with up.started() as account, run(up) as terminal:
        session = await ready(account, terminal)
        await terminal.type("[[error:400]]")
        log = await turn_ends(account, session, "failed")
        assert "400" in of(log, "turn_end")[0]["error"]
        await terminal.type("[[new]][[say:better]]")
        await turn_ends(account, session, "failed", "end_turn")


async def test_what_is_typed_during_a_turn_is_in_the_log_once(up: Up, home: Path) -> None:
    """Claude Code gives it to the model in the running turn, or begins the next one with it."""
    async with up.started() as account, run(up) as terminal:
        session = await ready(account, terminal)
        await terminal.type("[[bash:until test -e go; do sleep 0.1; done]][[say:one]]")
        await log_until(account, session, lambda log: bool(of(log, "tool_call")))
        await terminal.type("into it [[say:two]]")
        (transcript,) = (home.parent / ".claude" / "projects").rglob(f"{session}.jsonl")
        await eventually(lambda: '"enqueue"' in transcript.read_text(), WAIT)
        (up.desk / "go").touch()
        log = await turn_ends(account, session, "end_turn")
        assert [one["text"] for one in of(log, "user_message")][1:] == ["into it [[say:two]]"]
        assert of(log, "agent_message")[-1]["text"] == "two"


async def test_a_stop_hook_of_the_owner_that_lets_claude_go_on_belongs_to_the_turn(
    up: Up, home: Path
) -> None:
    script = "test -e once && exit 0; touch once; echo go on >&2; exit 2"
    settings = {"hooks": {"Stop": [{"hooks": [{"type": "command", "command": script}]}]}}
    (home.parent / ".claude").mkdir()
    (home.parent / ".claude" / "settings.json").write_text(json.dumps(settings))
    async with up.started() as account, run(up) as terminal:
        session = await ready(account, terminal)
        await terminal.type("[[say:first]]")
        log = await turn_ends(account, session, "end_turn")
        kinds = [one["kind"] for one in log]
        assert kinds[kinds.index("turn_start") :] == [
            "turn_start", "user_message", "agent_message", "agent_message", "usage_update", "turn_end",
        ]  # fmt: skip


async def test_commands_begin_no_turn_and_clear_begins_another_conversation(up: Up) -> None:
    async with up.started() as account, run(up) as terminal:
        session = await ready(account, terminal)
        await terminal.type("apricot")
        await turn_ends(account, session, "end_turn")
        await terminal.type("/clear")
        await terminal.until(lambda: "apricot" not in terminal.shown)
        await terminal.type("walnut")
        log = await turn_ends(account, session, "end_turn", "end_turn")
        assert [one["text"] for one in of(log, "user_message")] == ["apricot", "walnut"]
        assert [one["code"] for one in of(log, "notice")] == ["conversation_changed"]
        assert (await account.session(session))["nativeId"] != session
        told = await remembered(account, session)
        assert "echo: walnut" in told
        assert "echo: apricot" not in told


async def test_a_prompt_among_the_arguments_is_said_once(up: Up) -> None:
    async with up.started() as account, run(up, "apricot") as terminal:
        session = await ready(account, terminal)
        await turn_ends(account, session, "end_turn")
        await account.say(session, "walnut")
        await turn_ends(account, session, "end_turn", "end_turn")
        await terminal.shows("echo: walnut")
        await take_back(account, terminal, session)
        await terminal.type("[[history]]")
        await turn_ends(account, session, *["end_turn"] * 3)
        assert await said(account, session) == ["apricot", "walnut", "[[history]]"]


async def test_an_option_that_contradicts_the_session_is_refused(up: Up) -> None:
    async with up.started() as account, run(up, "--continue") as terminal:
        assert await terminal.exit_code() == 2
        await terminal.shows("--continue cannot be used")
        (found,) = (await account.get_json("/api/sessions"))["sessions"]
        assert found["status"] == "stopped"


async def test_ctrl_z_suspends_both_and_fg_continues_them(up: Up) -> None:
    """In a shell with job control, as a person has it."""
    async with up.started() as account:
        command = shlex.join(run(up).argv)
        environment = {**os.environ, "CLI_API_TOKEN": OWNER, "PS1": "shell> "}
        shell = PtyProgram(["bash", "--norc", "--noprofile", "-i"], cwd=up.desk, environment=environment)
        async with shell as terminal:
            await terminal.shows("shell>")
            terminal.press(command.encode() + ENTER)
            session = await ready(account, terminal)
            terminal.press(SUSPEND)
            await terminal.shows("Stopped")
            terminal.clear()
            terminal.press(b"fg" + ENTER)
            await terminal.shows(READY)
            await terminal.type("apricot")
            await turn_ends(account, session, "end_turn")
            await terminal.type("/exit")
            await until(account, session, lambda found: found["status"] == "stopped")
            terminal.press(b"exit" + ENTER)
            await terminal.exit_code()
    assert up.agents() == []


async def test_nothing_of_the_interface_is_left_below_what_we_say(up: Up) -> None:
    async with up.started() as account, run(up) as terminal:
        session = await ready(account, terminal)
        await account.say(session, "walnut")
        await terminal.shows("echo: walnut")
        lines = [line for line in terminal.shown.splitlines() if line]
        begin = next(
            index for index, line in enumerate(lines) if line.startswith("farsteer: this conversation")
        )
        assert not [line for line in lines[begin:] if "──" in line or READY in line]


async def test_a_turn_that_ends_while_no_runner_runs_is_in_the_log_once(up: Up) -> None:
    async with up.started() as account, run(up) as terminal:
        session = await ready(account, terminal)
        await terminal.type("[[bash:until test -e go; do sleep 0.1; done]][[say:finished]]")
        await log_until(account, session, lambda log: bool(of(log, "tool_call")))
        await up.end(signal.SIGKILL)
        (up.desk / "go").touch()
        await terminal.shows("● finished")
        terminal.clear()
        async with up.started() as account:
            await until(account, session, lambda found: found["inTerminal"])
            log = await turn_ends(account, session, "lost")
            assert len(of(log, "user_message")) == 1
            assert [one["status"] for one in of(log, "tool_call_update")] == ["completed"]
            assert [one["text"] for one in of(log, "agent_message")] == ["finished"]
            await terminal.shows(READY)


async def test_a_session_in_which_nothing_was_said_is_opened_again(up: Up) -> None:
    async with up.started() as account:
        async with run(up) as terminal:
            session = await ready(account, terminal)
            await terminal.type("/exit")
            assert await terminal.exit_code() == 0
        await until(account, session, lambda found: found["status"] == "stopped")
        async with run(up, session=session) as terminal:
            await terminal.shows(READY)
            await until(account, session, lambda found: found["inTerminal"])
            await terminal.type("apricot")
            await turn_ends(account, session, "end_turn")
            assert (await account.session(session))["nativeId"] == session
    assert up.agents() == []


async def test_two_terminals_do_not_share_a_session(up: Up) -> None:
    async with up.started() as account, run(up) as terminal:
        session = await ready(account, terminal)
        async with run(up, session=session) as other:
            assert await other.exit_code() == 1
            await other.shows("in another terminal")
        await terminal.type("apricot")
        await turn_ends(account, session, "end_turn")
