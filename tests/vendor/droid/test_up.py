"""The real Droid behind `farsteer up`, used over REST, with restarts of the agent and of Farsteer."""

from __future__ import annotations

import asyncio
import json
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.eventually import eventually
from tests.vendor.droid.conftest import FAKE, SONNET, STEP_TIMEOUT, only_new
from tests.vendor.pins import Pin
from tests.vendor.up import Up, approval, create, idle, remembered, seq_of, texts, until

pytestmark = [pytest.mark.vendor, pytest.mark.timeout(240)]


@pytest.fixture
def up(droid: Pin, tmp_path: Path) -> Up:
    desk = tmp_path / "desk"
    desk.mkdir()
    return Up("droid", desk.resolve(), tmp_path / "up.log")


def shown_models() -> list[str]:
    """Return the models that `farsteer agents droid` shows."""
    command = [sys.executable, "-m", "farsteer", "agents", "droid", "--json"]
    shown = subprocess.run(
        command, stdin=subprocess.DEVNULL, check=True, capture_output=True, timeout=STEP_TIMEOUT
    )
    return json.loads(shown.stdout)["models"]


async def test_models_and_fields_are_honest(up: Up, home: Path) -> None:
    async with up.started() as account:
        (machine,) = (await account.get_json("/api/machines"))["machines"]
        body = {"machineId": machine["id"], "directory": str(up.desk), "agent": "droid"}
        refused = await account.post_json("/api/sessions", {**body, "claudeAgent": "x"}, 400)
        assert (refused["logs"][-1]["code"], refused["details"]) == (
            "field_not_used",
            {"field": "claudeAgent"},
        )
        refused = await account.post_json("/api/sessions", {**body, "modelMode": "opus"}, 400)
        assert refused["logs"][-1]["code"] == "model_unknown"
        assert {FAKE, SONNET} <= {*refused["details"]["models"]}
        refused = await account.post_json(
            "/api/sessions", {**body, "model": FAKE, "modelReasoningEffort": "high"}, 400
        )
        assert (refused["logs"][-1]["code"], refused["details"]["efforts"]) == ("effort_unknown", ["none"])
        assert not list((home.parent / ".factory" / "sessions").rglob("*.jsonl")), "nothing is left of them"

        session = await create(account, up, model=FAKE)
        wrong = await account.post_json(f"/api/sessions/{session}/model", {"model": "zzz"}, 400)
        assert wrong["error"]["code"] == "model_unknown"
        assert FAKE in wrong["error"]["details"]["models"]
        await account.post_json(f"/api/sessions/{session}/stop", {})
        wrong = await account.post_json(f"/api/sessions/{session}/model", {"model": "zzz"}, 400)
        assert FAKE in wrong["error"]["details"]["models"], "also while no Droid runs"
        effort = {"model": FAKE, "reasoningEffort": "high"}
        wrong = await account.post_json(f"/api/sessions/{session}/model", effort, 400)
        assert (wrong["error"]["code"], wrong["error"]["details"]["efforts"]) == ("effort_unknown", ["none"])
        assert (await account.session(session))["model"] == FAKE
        (machine,) = (await account.get_json("/api/machines"))["machines"]
        (models,) = [agent["models"] for agent in machine["agents"] if agent["name"] == "droid"]
        assert {FAKE, SONNET} <= {*models}
        agents = (await account.get_json("/api/agents"))["agents"]
        assert [one["machines"][0]["models"] for one in agents if one["name"] == "droid"] == [models]
    assert await asyncio.to_thread(shown_models) == models


@only_new
def test_the_models_are_asked_for_if_none_are_known(up: Up) -> None:
    assert {FAKE, SONNET} <= {*shown_models()}


@only_new
def test_json_has_the_fields_of_droids_own_command(up: Up) -> None:
    prompt = "[[say:hello]][[bash:ls /nowhere]]"
    droid = ["droid", "exec", "-m", FAKE, "-o", "json", prompt]
    ours = [
        sys.executable, "-m", "farsteer", "exec", "--agent", "droid", "-m", FAKE, "-o", "json", "--yolo", prompt,
    ]  # fmt: skip
    theirs, mine = (
        json.loads(
            subprocess.run(
                command, stdin=subprocess.DEVNULL, cwd=up.desk, capture_output=True, check=True, timeout=STEP_TIMEOUT
            ).stdout
        )
        for command in (droid, ours)
    )  # fmt: skip
    assert [*mine] == [*theirs]
    assert {*mine["usage"]} <= {*theirs["usage"]}
    same = ("type", "subtype", "is_error", "num_turns", "result")
    assert [mine[name] for name in same] == [theirs[name] for name in same]


async def test_a_conversation_with_approvals_survives_a_restart_of_agent_and_hub(up: Up) -> None:
    async with up.started() as account:
        session = await create(account, up, model=FAKE)

        await account.say(session, "[[bash:touch made.txt]][[say:made it]]")
        asked = await approval(account, session)
        assert asked["kind"] == "permission"
        assert not (up.desk / "made.txt").exists()
        await account.post_json(f"/api/sessions/{session}/permissions/{asked['id']}/approve")
        await idle(account, session)
        assert (up.desk / "made.txt").exists()

        await account.say(session, "[[ask:Which color?:Red|Blue]]")
        asked = await approval(account, session)
        answers = {asked["questions"][0]["id"]: ["Blue"]}
        await account.post_json(
            f"/api/sessions/{session}/permissions/{asked['id']}/approve", {"answers": answers}
        )
        await idle(account, session)
        said = await texts(account, session)
        assert said[0] == "made it"
        assert "Blue" in said[1]

        native_id = (await account.session(session))["nativeId"]
        assert len(up.agents()) == 1
        await account.post_json(f"/api/sessions/{session}/stop")
        await until(account, session, lambda found: found["status"] == "stopped")
        assert up.agents() == []

    async with up.started() as account:
        await account.post_json(f"/api/sessions/{session}/resume")
        await account.say(session, "[[history]]")
        found = await idle(account, session)
        told = json.loads((await texts(account, session))[-1])["history"]
        assert told[0] == ["user", "[[bash:touch made.txt]][[say:made it]]"]
        assert ["assistant", "made it"] in told
        assert found["nativeId"] == native_id
        await until(account, session, lambda found: found["usage"]["inputTokens"] > 0)
    assert up.agents() == []


@only_new
async def test_a_rewind_a_fork_and_an_adopted_conversation(up: Up) -> None:
    async with up.started() as account:
        session = await create(account, up, model=FAKE)
        await account.say(session, "apricot")
        await idle(account, session)
        await account.say(session, f"[[write:{up.desk}/made.txt:walnut]][[say:written]]")
        asked = await approval(account, session)
        await account.post_json(f"/api/sessions/{session}/permissions/{asked['id']}/approve")
        await idle(account, session)
        assert (up.desk / "made.txt").exists()
        fork = (await account.post_json(f"/api/sessions/{session}/fork", {"title": "Another try"}))[
            "sessionId"
        ]
        written = await seq_of(account, session, "walnut")
        rewound = await account.post_json(f"/api/sessions/{session}/rewind", {"seq": written})
        assert rewound["files"]["status"] == "full"
        assert rewound["files"]["restored"] == [str(up.desk / "made.txt")]
        assert not (up.desk / "made.txt").exists()
        assert await remembered(account, session) == ["apricot", "echo: apricot"]
        assert "written" in await remembered(account, fork)
        source = (await account.session(session))["nativeId"]

    async with up.started() as account:
        (machine,) = (await account.get_json("/api/machines"))["machines"]
        where = f"/api/machines/{machine['id']}"
        listed = (await account.get_json(f"{where}/conversations?agent=droid"))["conversations"]
        ours = {one["nativeId"]: one["sessionId"] for one in listed}
        assert ours[source] == session
        # The rewound conversation is still stored under its old id and belongs to no session.
        left = [one["nativeId"] for one in listed if one["sessionId"] is None]
        adopted = (await account.post_json(f"{where}/import", {"agent": "droid", "nativeId": left[0]}))[
            "sessionId"
        ]
        assert "written" in await texts(account, adopted)
        assert "written" in await remembered(account, adopted)
    assert up.agents() == []


async def test_kill_9_of_hub_and_runner_during_a_turn(up: Up) -> None:
    async with up.started() as account:
        session = await create(account, up, model=FAKE)
        await account.say(session, "[[say:remember the dolphin]]")
        await idle(account, session)
        await account.say(session, "[[bash:touch running; sleep 300]]")
        asked = await approval(account, session)
        await account.post_json(f"/api/sessions/{session}/permissions/{asked['id']}/approve")
        await eventually((up.desk / "running").exists, STEP_TIMEOUT)
        await up.end(signal.SIGKILL)
    await eventually(lambda: not up.agents(), STEP_TIMEOUT)

    async with up.started() as account:
        ends = [
            entry["content"]["reason"]
            for entry in await account.messages(session, limit=200)
            if entry["content"]["kind"] == "turn_end"
        ]
        assert ends == ["end_turn", "lost"]
        await account.say(session, "[[history]]")
        await idle(account, session)
        assert ["assistant", "remember the dolphin"] in json.loads((await texts(account, session))[-1])[
            "history"
        ]
