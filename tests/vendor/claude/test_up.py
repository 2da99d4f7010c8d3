"""The real Claude Code behind `farsteer up`, used over REST, with restarts and kills of the agent and of Farsteer."""

from __future__ import annotations

import asyncio
import signal
import subprocess
from pathlib import Path
from typing import Any

import pytest

from farsteer.agents.claude.translator import SESSION_START
from farsteer.core.ids import new_id
from tests.support.eventually import eventually
from tests.support.model import ScriptedModel
from tests.support.processes import is_alive
from tests.support.stack import Account
from tests.vendor.claude.conftest import STEP_TIMEOUT
from tests.vendor.install import program
from tests.vendor.pins import Pin
from tests.vendor.up import Up, approval, create, idle, remembered, seq_of, texts, until

pytestmark = [pytest.mark.vendor, pytest.mark.timeout(240)]


@pytest.fixture
def up(claude: Pin, tmp_path: Path) -> Up:
    desk = tmp_path / "desk"
    desk.mkdir()
    return Up("claude", desk.resolve(), tmp_path / "up.log")


async def answer(account: Account, session: str, how: str = "approve", **body: Any) -> dict[str, Any]:
    """Answer what the session waits for, and return what that was."""
    asked = await approval(account, session)
    await account.post_json(f"/api/sessions/{session}/permissions/{asked['id']}/{how}", body)
    return asked


async def turns_ended(account: Account, session: str, expected: list[str]) -> None:
    """Wait until the turns of the session have ended like this."""

    async def look() -> bool:
        log = await account.messages(session, limit=200)
        return [
            entry["content"]["reason"] for entry in log if entry["content"]["kind"] == "turn_end"
        ] == expected

    await eventually(look, STEP_TIMEOUT)


async def conversations(account: Account) -> tuple[str, list[dict[str, Any]]]:
    """Return the address of the machine and the stored conversations on it."""
    (machine,) = (await account.get_json("/api/machines"))["machines"]
    where = f"/api/machines/{machine['id']}"
    return where, (await account.get_json(f"{where}/conversations?agent=claude"))["conversations"]


async def test_a_conversation_with_approvals_survives_a_restart_of_agent_and_hub(up: Up) -> None:
    async with up.started() as account:
        session = await create(account, up)
        await account.say(session, "[[bash:touch made.txt]][[say:made it]]")
        asked = await approval(account, session)
        assert asked["kind"] == "permission"
        assert not (up.desk / "made.txt").exists()
        await answer(account, session)
        await idle(account, session)
        assert (up.desk / "made.txt").exists()

        await account.say(session, "[[ask:Which color?:Red|Blue]]")
        asked = await approval(account, session)
        await answer(account, session, answers={asked["questions"][0]["id"]: ["Blue"]})
        await idle(account, session)
        said = await texts(account, session)
        assert said[0] == "made it"
        assert "Blue" in said[1]

        found = await account.session(session)
        assert found["nativeId"] == session
        assert len(up.agents()) == 1
        await account.post_json(f"/api/sessions/{session}/stop")
        await until(account, session, lambda found: found["status"] == "stopped")
        assert up.agents() == []

    async with up.started() as account:
        await account.post_json(f"/api/sessions/{session}/resume")
        told = await remembered(account, session)
        assert told[0] == "[[bash:touch made.txt]][[say:made it]]"
        assert "made it" in told
        found = await account.session(session)
        assert found["nativeId"] == session
        assert found["usage"]["inputTokens"] > 0
    assert up.agents() == []


async def test_an_approval_that_waits_allows_nothing_after_a_restart_and_can_be_asked_for_anew(
    up: Up,
) -> None:
    async with up.started() as account:
        session = await create(account, up)
        await account.say(session, "[[bash:touch made.txt]]")
        await approval(account, session)
    assert up.agents() == []
    async with up.started() as account:
        found = await account.session(session)
        assert not (up.desk / "made.txt").exists(), "nothing but an answer allows it"
        assert found["approvals"] == []
        await account.say(session, "[[new]][[bash:touch made.txt]][[say:made it]]")
        await answer(account, session)
        await idle(account, session)
        assert (up.desk / "made.txt").exists()


async def test_the_source_is_kept_in_the_session_and_put_into_the_payload_of_the_hook(up: Up) -> None:
    async with up.started() as account:
        session = await create(account, up, source="my-tool")
        other = await create(account, up)
        for one, source in ((session, "my-tool"), (other, "external-api")):
            await account.say(one, "hello")
            found = await idle(account, one)
            assert found["source"] == source
            log = [entry["content"] for entry in await account.messages(one, limit=200)]
            (payload,) = [entry["data"] for entry in log if entry.get("nativeKind") == SESSION_START]
            assert (payload["hapi_source"], payload["source"]) == (source, "startup")


async def test_a_rewind_restores_the_files_and_a_fork_keeps_the_history(up: Up) -> None:
    path = up.desk / "made.txt"
    async with up.started() as account:
        session = await create(account, up, permissionMode="acceptEdits")
        await account.say(session, "apricot")
        await idle(account, session)
        await account.say(session, f"[[write:{path}:first]][[say:once]]")
        await idle(account, session)
        await account.say(session, f"[[read:{path}]][[write:{path}:second]][[say:twice]]")
        await idle(account, session)
        assert path.read_text() == "second"
        fork = (await account.post_json(f"/api/sessions/{session}/fork", {"title": "Another try"}))[
            "sessionId"
        ]

        rewound = await account.post_json(
            f"/api/sessions/{session}/rewind", {"seq": await seq_of(account, session, "second")}
        )
        assert (rewound["files"]["status"], rewound["files"]["restored"]) == ("full", [str(path)])
        assert path.read_text() == "first"
        told = await remembered(account, session)
        assert told[:2] == ["apricot", "echo: apricot"]
        assert "once" in told
        assert "twice" not in told

        rewound = await account.post_json(
            f"/api/sessions/{session}/rewind", {"seq": await seq_of(account, session, "first")}
        )
        assert rewound["files"]["status"] == "full"
        assert not path.exists()
        assert await remembered(account, session) == ["apricot", "echo: apricot"]
        assert "twice" in await remembered(account, fork)

    async with up.started() as account:
        assert (await remembered(account, session))[:2] == ["apricot", "echo: apricot"]
        found = await account.session(fork)
        assert found["nativeId"] == fork
        _, listed = await conversations(account)
        assert {one["nativeId"]: one["sessionId"] for one in listed} == {session: session, fork: fork}
    assert up.agents() == []


async def test_a_conversation_begun_outside_is_imported_and_continued(up: Up, claude: Pin) -> None:
    outside = new_id()
    for arguments in (
        ("--session-id", outside, "[[say:old answer]]"),
        ("--resume", outside, "second question"),
    ):
        command = [str(program(claude)), "-p", *arguments]
        process = await asyncio.create_subprocess_exec(
            *command, cwd=up.desk, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL
        )
        assert await process.wait() == 0
    async with up.started() as account:
        where, (listed,) = await conversations(account)
        assert (listed["nativeId"], listed["sessionId"]) == (outside, None)
        body = {"agent": "claude", "nativeId": outside}
        session = (await account.post_json(f"{where}/import", body))["sessionId"]
        assert await texts(account, session) == ["old answer", "echo: second question"]
        told = await remembered(account, session)
        assert told == ["[[say:old answer]]", "old answer", "second question", "echo: second question"]
        _, (listed,) = await conversations(account)
        assert listed["sessionId"] == session
    assert up.agents() == []


async def test_kill_9_of_the_agent_during_a_turn(up: Up) -> None:
    async with up.started() as account:
        session = await create(account, up)
        await account.say(session, "[[say:remember the dolphin]]")
        await idle(account, session)
        await account.say(session, "[[bash:touch running && sleep 300]]")
        await answer(account, session)
        await eventually((up.desk / "running").exists, STEP_TIMEOUT)
        for process in up.agents():
            process.send_signal(signal.SIGKILL)
        await turns_ended(account, session, ["end_turn", "crashed"])
        assert "remember the dolphin" in await remembered(account, session)
    assert up.agents() == []


async def test_kill_9_of_hub_and_runner_during_a_turn(up: Up) -> None:
    async with up.started() as account:
        session = await create(account, up)
        await account.say(session, "[[say:remember the dolphin]]")
        await idle(account, session)
        await account.say(session, "[[bash:touch running && sleep 300]]")
        await answer(account, session)
        await eventually((up.desk / "running").exists, STEP_TIMEOUT)
        await up.end(signal.SIGKILL)
    # Claude Code goes on with a command although its input has ended. The next runner ends it.
    left = up.agents()

    async with up.started() as account:
        await eventually(lambda: not any(is_alive(process) for process in left), STEP_TIMEOUT)
        await turns_ended(account, session, ["end_turn", "lost"])
        assert "remember the dolphin" in await remembered(account, session)
    assert up.agents() == []


async def test_a_session_goes_to_a_provider_and_back(
    up: Up, model: ScriptedModel, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Anthropic accepts no thoughts of others, so that each change begins a new conversation."""
    (home / "providers").mkdir(parents=True, exist_ok=True)
    for name in ("mine", "yours"):
        (home / "providers" / f"{name}.toml").write_text(
            f'title = "{name}"\nbase_url = "{model.url}"\nkey_variable = "{name.upper()}_KEY"\n'
            f'model = "{name}-large"\n'
        )
        monkeypatch.setenv(f"{name.upper()}_KEY", f"key-of-{name}")

    def seen(model_name: str) -> list[dict[str, Any]]:
        return [dict(turn.request.headers) for turn in model.log.turns if model_name in turn.body["model"]]

    async with up.started() as account:
        session = await create(account, up)
        await account.say(session, "[[think:signed]][[say:apricot]]")
        await idle(account, session)
        for agent, expected in (
            ("mine", []),
            ("yours", ["walnut"]),
            ("claude", []),
        ):
            await account.post_json(f"/api/sessions/{session}/agent", {"agent": agent})
            told = await remembered(account, session)
            assert [text for text in told if text in ("apricot", "walnut")] == expected
            await account.say(session, "[[think:unsigned]][[say:walnut]]")
            await idle(account, session)
        assert (await account.session(session))["agent"] == "claude"
        assert (await texts(account, session))[0] == "apricot", "the log of the session goes on"
    for name in ("mine", "yours"):
        assert seen(name)
        for headers in seen(name):
            assert f"key-of-{name}" in str(headers)
            assert "sk-test" not in str(headers)
    for headers in seen("claude"):
        assert "sk-test" in str(headers)
        assert "key-of" not in str(headers)
    assert up.agents() == []
