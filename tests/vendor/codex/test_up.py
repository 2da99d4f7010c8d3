"""The real Codex behind `farsteer up`, used over REST, with restarts and kills of the agent and of Farsteer."""

from __future__ import annotations

import json
import signal
from pathlib import Path

import pytest

from tests.support.eventually import eventually
from tests.support.stack import Account
from tests.vendor.codex.conftest import STEP_TIMEOUT
from tests.vendor.up import Up, approval, create, idle, remembered, seq_of, texts, until

pytestmark = [pytest.mark.vendor, pytest.mark.timeout(240)]


@pytest.fixture
def up(codex: Path, tmp_path: Path) -> Up:
    desk = tmp_path / "desk"
    desk.mkdir()
    return Up("codex", desk.resolve(), tmp_path / "up.log")


async def approve(account: Account, session: str) -> None:
    asked = await approval(account, session)
    await account.post_json(f"/api/sessions/{session}/permissions/{asked['id']}/approve")


async def turn_ends(account: Account, session: str) -> list[str]:
    log = await account.messages(session, limit=200)
    return [entry["content"]["reason"] for entry in log if entry["content"]["kind"] == "turn_end"]


async def test_a_conversation_with_approvals_survives_a_restart_of_agent_and_hub(up: Up) -> None:
    async with up.started() as account:
        session = await create(account, up)
        await account.say(session, "[[escalate:touch made.txt]][[say:made it]]")
        asked = await approval(account, session)
        assert asked["kind"] == "permission"
        assert not (up.desk / "made.txt").exists()
        await approve(account, session)
        await idle(account, session)
        assert (up.desk / "made.txt").exists()
        assert await texts(account, session) == ["made it"]
        native_id = (await account.session(session))["nativeId"]
        assert up.agents()
        await account.post_json(f"/api/sessions/{session}/stop")
        await until(account, session, lambda found: found["status"] == "stopped")
        assert up.agents() == []

    async with up.started() as account:
        await account.post_json(f"/api/sessions/{session}/resume")
        told = await remembered(account, session)
        assert told[0] == "[[escalate:touch made.txt]][[say:made it]]"
        assert told[-1] == "made it"
        found = await account.session(session)
        assert found["nativeId"] == native_id
        assert found["usage"]["inputTokens"] > 0
    assert up.agents() == []


async def test_a_rewind_keeps_the_files_and_a_fork_and_an_import_have_the_history(up: Up) -> None:
    async with up.started() as account:
        session = await create(account, up)
        await account.say(session, "apricot")
        await idle(account, session)
        await account.say(session, "[[write:made.txt:walnut]][[say:written]]")
        await approve(account, session)
        await idle(account, session)
        fork = (await account.post_json(f"/api/sessions/{session}/fork", {}))["sessionId"]
        written = await seq_of(account, session, "walnut")
        rewound = await account.post_json(f"/api/sessions/{session}/rewind", {"seq": written})
        assert rewound["files"]["status"] == "unsupported"
        assert (up.desk / "made.txt").exists()
        assert await remembered(account, session) == ["apricot", "echo: apricot"]
        assert "written" in await remembered(account, fork)
        native_id = (await account.session(session))["nativeId"]
        (machine,) = (await account.get_json("/api/machines"))["machines"]
        where = f"/api/machines/{machine['id']}"
        listed = (await account.get_json(f"{where}/conversations?agent=codex"))["conversations"]
        assert {one["nativeId"]: one["sessionId"] for one in listed}[native_id] == session
    assert up.agents() == []


async def test_a_conversation_of_the_terminal_is_imported_and_continued(up: Up, codex: Path) -> None:
    older = older_conversation(codex, up.desk)
    async with up.started() as account:
        (machine,) = (await account.get_json("/api/machines"))["machines"]
        where = f"/api/machines/{machine['id']}"
        (listed,) = (await account.get_json(f"{where}/conversations?agent=codex"))["conversations"]
        assert (listed["nativeId"], listed["title"]) == (older, "old question")
        body = {"agent": "codex", "nativeId": older}
        session = (await account.post_json(f"{where}/import", body))["sessionId"]
        assert await texts(account, session) == ["old answer"]
        assert await remembered(account, session) == ["old question", "old answer"]


def older_conversation(codex: Path, directory: Path) -> str:
    """Write a conversation in the format of Codex 0.40, and return its id."""
    thread_id = "0199a213-81c0-7800-8aa1-bbab2a035a53"
    folder = codex / "sessions" / "2025" / "09" / "01"
    folder.mkdir(parents=True)
    meta = {
        "id": thread_id, "timestamp": "2025-09-01T10:00:00.000Z", "cwd": str(directory), "originator": "codex_cli_rs",
        "cli_version": "0.40.0", "instructions": None,
    }  # fmt: skip
    question = {"role": "user", "content": [{"type": "input_text", "text": "old question"}]}
    answer = {"role": "assistant", "content": [{"type": "output_text", "text": "old answer"}]}
    records = (
        ("session_meta", meta), ("response_item", {"type": "message", **question}),
        ("event_msg", {"type": "user_message", "message": "old question", "kind": "plain"}),
        ("event_msg", {"type": "agent_message", "message": "old answer"}),
        ("response_item", {"type": "message", **answer}),
    )  # fmt: skip
    lines = (
        json.dumps({"timestamp": f"2025-09-01T10:00:0{number}.000Z", "type": kind, "payload": payload})
        for number, (kind, payload) in enumerate(records)
    )
    (folder / f"rollout-2025-09-01T10-00-00-{thread_id}.jsonl").write_text("\n".join(lines) + "\n")
    return thread_id


async def test_kill_9_of_the_agent_during_a_turn(up: Up) -> None:
    async with up.started() as account:
        session = await create(account, up)
        await account.say(session, "[[say:remember the dolphin]]")
        await idle(account, session)
        await account.say(session, "[[escalate:touch running && sleep 300]][[hang]]")
        await approve(account, session)
        await eventually((up.desk / "running").exists, STEP_TIMEOUT)
        for process in up.agents():
            process.send_signal(signal.SIGKILL)

        async def has_ended() -> bool:
            return await turn_ends(account, session) == ["end_turn", "crashed"]

        await eventually(has_ended, STEP_TIMEOUT)
        assert "remember the dolphin" in await remembered(account, session)
    assert up.agents() == []


async def test_kill_9_of_hub_and_runner_during_a_turn(up: Up) -> None:
    async with up.started() as account:
        session = await create(account, up)
        await account.say(session, "[[say:remember the dolphin]]")
        await idle(account, session)
        await account.say(session, "[[escalate:touch running && sleep 300]][[hang]]")
        await approve(account, session)
        await eventually((up.desk / "running").exists, STEP_TIMEOUT)
        await up.end(signal.SIGKILL)
    await eventually(lambda: not up.agents(), STEP_TIMEOUT)

    async with up.started() as account:
        assert await turn_ends(account, session) == ["end_turn", "lost"]
        assert "remember the dolphin" in await remembered(account, session)
