"""GET /api/usage: tokens and cost of the demo agent."""

from datetime import UTC, datetime

import pytest

from farsteer.core.ids import new_id
from tests.support.stack import OWNER, Account, Stack


async def test_the_usage_of_a_turn_in_every_grouping(stack: Stack, owner: Account) -> None:
    session_id = await stack.create(owner)
    log = await owner.turn(session_id, "hello")
    (turn_id,) = [e["content"]["turnId"] for e in log if e["content"]["kind"] == "turn_start"]
    days = await owner.get_json("/api/usage")
    (day,) = days["groups"]
    assert day["key"] == str(datetime.now(UTC).date())
    assert day["turns"] == 1
    assert day["outputTokens"] > 0
    assert days["truncated"] is False
    assert days["total"] == {name: value for name, value in day.items() if name != "key"}
    turns = await owner.get_json("/api/usage", groupBy="turn", sessionId=session_id)
    assert [group["key"] for group in turns["groups"]] == [turn_id]
    today = day["key"]
    same = await owner.get_json("/api/usage", **{"from": today, "to": today, "groupBy": "session"})
    assert same["total"] == days["total"]
    assert (await owner.get_json("/api/usage", to="2020-01-01"))["groups"] == []
    usage = (await owner.session(session_id))["usage"]
    assert usage["outputTokens"] == day["outputTokens"]
    stranger = await stack.sign_in(f"{OWNER}:elsewhere")
    await stranger.get_json("/api/usage", 404, sessionId=session_id)
    assert (await stranger.get_json("/api/usage"))["groups"] == []


@pytest.mark.parametrize(
    "query",
    [
        {"from": "yesterday"},
        {"from": "2026-02-30"},
        {"to": "2026-1-1"},
        {"from": "2026-01-02T00:00:00"},
        {"from": "2026-01-02", "to": "2026-01-01"},
        {"groupBy": "person"},
        {"groupBy": "turn"},
        {"sessionId": "../x"},
        {"until": "2026-01-01"},
    ],
)
async def test_invalid_queries_are_refused(hub_only: Stack, query: dict[str, str]) -> None:
    owner = await hub_only.sign_in()
    await owner.get_json("/api/usage", 400, **query)


async def test_an_unknown_session_is_not_found(hub_only: Stack) -> None:
    owner = await hub_only.sign_in()
    await owner.get_json("/api/usage", 404, sessionId=new_id())
