"""An agent that loosens its own permission mode, through the whole stack."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.support.droid_simulator import install
from tests.support.eventually import eventually
from tests.support.stack import Account, Stack


def notices(log: list[Any]) -> list[Any]:
    return [
        entry["content"]
        for entry in log
        if entry["content"]["kind"] == "notice" and entry["content"].get("code") == "mode_restored"
    ]


async def asks_again(account: Account, stack: Stack, session: str) -> None:
    """The agent asks before it writes, as it did before."""
    await account.say(session, "write made.txt x")
    await account.until(session, "waiting")
    assert not (Path(stack.directory()) / "made.txt").exists()


@pytest.fixture(params=["0.99", "0.215"])
def droid(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DROID_EXECUTABLE", install(tmp_path, request.param))


@pytest.mark.usefixtures("droid")
async def test_a_droid_that_raises_its_autonomy_by_itself_is_put_back(stack: Stack) -> None:
    account = await stack.sign_in()
    session = await stack.create(account, agent="droid")
    (notice,) = notices(await account.turn(session, "loosen"))
    assert notice["meta"] == {"mode": "yolo", "restored": "default"}
    assert (await account.session(session))["permissionMode"] == "default"
    await asks_again(account, stack, session)


async def test_a_droid_that_keeps_its_autonomy_is_stopped(
    stack: Stack, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DROID_EXECUTABLE", install(tmp_path, "0.215", "--misbehave", "keeps-autonomy"))
    account = await stack.sign_in()
    session = await stack.create(account, agent="droid")
    log = await account.turn(session, "loosen")
    (end,) = [entry["content"] for entry in log if entry["content"]["kind"] == "turn_end"]
    assert end["reason"] == "failed"
    assert "does not stay in the permission mode" in end["error"]


async def test_the_demo_agent_is_put_back(stack: Stack) -> None:
    account = await stack.sign_in()
    session = await stack.create(account)
    assert len(notices(await account.turn(session, "loosen"))) == 1
    await asks_again(account, stack, session)


async def test_a_demo_agent_that_insists_is_stopped(stack: Stack) -> None:
    account = await stack.sign_in()
    session = await stack.create(account)
    log = await account.turn(session, "loosen always")
    assert [e["content"]["reason"] for e in log if e["content"]["kind"] == "turn_end"] == ["failed"]

    async def stopped() -> bool:
        ends = [e for e in await account.messages(session) if e["content"]["kind"] == "launch_end"]
        return bool(ends)

    await eventually(stopped)
