"""The real aider behind `farsteer up`, used over REST, with a restart and kills of the agent and of Farsteer."""

from __future__ import annotations

import signal
from pathlib import Path

import pytest

from tests.support.eventually import eventually
from tests.support.stack import Account
from tests.vendor.aider.conftest import STEP_TIMEOUT, edit, shell
from tests.vendor.up import Up, approval, create, idle, remembered, seq_of, texts, until

pytestmark = [pytest.mark.vendor, pytest.mark.timeout(240)]

EDIT = edit("made.txt", "", "hello")


@pytest.fixture
def up(aider: Path, tmp_path: Path) -> Up:
    desk = tmp_path / "desk"
    desk.mkdir()
    return Up("aider", desk.resolve(), tmp_path / "up.log")


async def approve(account: Account, session: str) -> None:
    asked = await approval(account, session)
    await account.post_json(f"/api/sessions/{session}/permissions/{asked['id']}/approve")


async def turn_ends(account: Account, session: str) -> list[str]:
    log = await account.messages(session, limit=200)
    return [entry["content"]["reason"] for entry in log if entry["content"]["kind"] == "turn_end"]


async def test_a_conversation_with_approvals_survives_a_restart_of_agent_and_hub(up: Up) -> None:
    async with up.started() as account:
        session = await create(account, up)
        await account.say(session, EDIT)
        asked = await approval(account, session)
        assert (asked["kind"], asked["toolKind"]) == ("permission", "edit")
        assert not (up.desk / "made.txt").exists()
        await approve(account, session)
        await idle(account, session)
        assert (up.desk / "made.txt").read_text() == "hello\n"
        assert "SEARCH" in (await texts(account, session))[0]
        native_id = (await account.session(session))["nativeId"]
        assert len(up.agents()) == 1
        await account.post_json(f"/api/sessions/{session}/stop")
        await until(account, session, lambda found: found["status"] == "stopped")
        assert up.agents() == []

    async with up.started() as account:
        await account.post_json(f"/api/sessions/{session}/resume")
        assert "I updated the files." in await remembered(account, session)
        found = await account.session(session)
        assert found["nativeId"] == native_id == session
        assert found["usage"]["inputTokens"] > 0
    assert up.agents() == []


async def test_a_rewind_keeps_the_files_and_a_fork_has_the_history(up: Up) -> None:
    async with up.started() as account:
        session = await create(account, up)
        await account.say(session, "[[say:apricot]]")
        await idle(account, session)
        await account.say(session, EDIT + "[[say:walnut]]")
        await approve(account, session)
        await idle(account, session)
        fork = (await account.post_json(f"/api/sessions/{session}/fork", {}))["sessionId"]
        written = await seq_of(account, session, "walnut")
        rewound = await account.post_json(f"/api/sessions/{session}/rewind", {"seq": written})
        assert rewound["files"]["status"] == "unsupported"
        assert (up.desk / "made.txt").exists()
        told = await remembered(account, session)
        assert "apricot" in told
        assert not any("walnut" in text for text in told)
        assert any("walnut" in text for text in await remembered(account, fork))
    assert up.agents() == []


async def test_kill_9_of_the_agent_during_a_turn(up: Up) -> None:
    async with up.started() as account:
        session = await create(account, up)
        await account.say(session, "[[say:the dolphin]]")
        await idle(account, session)
        await account.say(session, shell("touch running; sleep 300"))
        await approve(account, session)
        await eventually((up.desk / "running").exists, STEP_TIMEOUT)
        for process in up.agents():
            process.send_signal(signal.SIGKILL)

        async def has_ended() -> bool:
            return await turn_ends(account, session) == ["end_turn", "crashed"]

        await eventually(has_ended, STEP_TIMEOUT)
        assert "the dolphin" in await remembered(account, session)
    assert up.agents() == []


async def test_kill_9_of_hub_and_runner_during_a_turn(up: Up) -> None:
    async with up.started() as account:
        session = await create(account, up)
        await account.say(session, "[[say:the dolphin]]")
        await idle(account, session)
        await account.say(session, "[[say:and ]][[hang]]")
        await until(account, session, lambda found: found["status"] == "working")
        await up.end(signal.SIGKILL)
    await eventually(lambda: not up.agents(), STEP_TIMEOUT)

    async with up.started() as account:
        assert await turn_ends(account, session) == ["end_turn", "lost"]
        assert "the dolphin" in await remembered(account, session)
