"""Conversations of the demo agent are listed, imported and continued over the API."""

import shutil
from pathlib import Path
from typing import Any

import pytest

from farsteer.core.ids import new_id
from tests.support.stack import OWNER, Account, Stack, farsteer


def said(log: list[Any], kind: str) -> list[str]:
    return [entry["content"]["text"] for entry in log if entry["content"]["kind"] == kind]


async def machine_of(account: Account) -> str:
    return (await account.get_json("/api/machines"))["machines"][0]["id"]


@pytest.mark.slow
async def test_a_conversation_is_continued_elsewhere_and_the_agent_remembers(
    home: Path, tmp_path: Path
) -> None:
    async with farsteer(home) as first:
        owner = await first.sign_in()
        native = await first.create(owner)
        await owner.turn(native, "the door is blue")
        (mine,) = (await owner.get_json(f"/api/machines/{await machine_of(owner)}/conversations"))[
            "conversations"
        ]
        assert mine["sessionId"] == native
    other = tmp_path / "other home"
    other.mkdir(mode=0o700)
    shutil.copytree(home / "agents", other / "agents")
    async with farsteer(other) as second:
        owner = await second.sign_in()
        machine = f"/api/machines/{await machine_of(owner)}"
        listed = await owner.get_json(f"{machine}/conversations", agent="demo", directory=first.directory())
        (found,) = listed["conversations"]
        assert (found["nativeId"], found["title"], found["sessionId"]) == (native, "the door is blue", None)

        adopt = {"agent": "demo", "nativeId": native}
        key = {"idempotency-key": "once"}
        response = await owner.post(f"{machine}/import", json=adopt, headers=key)
        assert response.json()["sessionId"] == native, response.text
        assert [line["step"] for line in response.json()["logs"]][-2:] == ["history", "directory"]
        assert (await owner.post(f"{machine}/import", json=adopt, headers=key)).json() == response.json()
        refused = await owner.post_json(f"{machine}/import", adopt, 409)
        assert refused["details"] == {"session": native}

        session = await owner.session(native)
        assert (session["status"], session["title"]) == ("stopped", "the door is blue")
        assert said(await owner.messages(native), "user_message") == ["the door is blue"]
        log = await owner.turn(native, "what did I say?")
        assert "the door is blue" in said(log, "agent_message")[-1]
        asked = max(entry["seq"] for entry in log if entry["content"]["kind"] == "user_message")
        await owner.post_json(f"/api/sessions/{native}/rewind", {"seq": asked})
        log = await owner.turn(native, "and what did I say?")
        assert said(log, "user_message") == ["the door is blue", "and what did I say?"]
        used = await owner.get_json("/api/usage", sessionId=native)
        assert used["total"]["turns"] == 2, (
            "the first turn was another hub's, and a rewind takes nothing back"
        )

        files = [*(other / "agents").rglob(f"{native}*")]
        assert files
        await owner.delete(f"/api/sessions/{native}")
        again = await owner.post_json(f"{machine}/import", adopt)
        assert again["sessionId"] != native, "a deleted id is not used again"
        assert [*(other / "agents").rglob(f"{native}*")] == files


async def test_a_failed_import_reports_its_steps(stack: Stack, owner: Account) -> None:
    machine = f"/api/machines/{await machine_of(owner)}"
    missing = await owner.post_json(f"{machine}/import", {"agent": "demo", "nativeId": new_id()}, 422)
    assert missing["type"] == "error"
    assert missing["logs"][-1]["code"] == "conversation_missing"
    unknown = await owner.post_json(f"{machine}/import", {"agent": "nobody", "nativeId": "x"}, 422)
    assert unknown["logs"][-1]["code"] == "agent_unknown"
    await owner.post_json(f"{machine}/import", {"agent": "demo", "nativeId": "../../token"}, 400)
    await owner.post_json(f"{machine}/import", {"agent": "demo"}, 400)
    await owner.get_json(f"{machine}/conversations", 422, agent="nobody")
    await owner.get_json(f"{machine}/conversations", 400, limit=0)
    stranger = await stack.sign_in(f"{OWNER}:elsewhere")
    await stranger.get_json(f"{machine}/conversations", 404)
    await stranger.post_json(f"{machine}/import", {"agent": "demo", "nativeId": new_id()}, 404)
    await stack.stop_runner()
    await owner.get_json(f"{machine}/conversations", 409)
    offline = await owner.post_json(f"{machine}/import", {"agent": "demo", "nativeId": new_id()}, 409)
    assert offline["logs"][-1]["code"] == "machine_offline"
