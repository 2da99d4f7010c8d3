"""Sessions over the API, with a real runner and the demo agent."""

from typing import Any

from tests.support.stack import Account, Stack


def kinds(log: list[Any]) -> list[str]:
    return [entry["content"]["kind"] for entry in log]


async def test_the_list_is_paged_and_filtered(stack: Stack, owner: Account) -> None:
    first = await stack.create(owner, title="alpha")
    second = await stack.create(owner, title="beta")
    third = await stack.create(owner, title="gamma")
    everything = {first, second, third}

    async def ids(**query: Any) -> list[str]:
        return [session["id"] for session in (await owner.get_json("/api/sessions", **query))["sessions"]]

    assert set(await ids()) == everything
    assert await ids(text="bet") == [second]
    assert set(await ids(agent="demo")) == everything
    assert await ids(agent="other") == []
    assert set(await ids(state="idle")) == everything
    assert await ids(state="working") == []
    machine_id = (await owner.session(first))["machineId"]
    assert set(await ids(machineId=machine_id)) == everything
    assert await ids(machineId=first) == []

    seen: list[str] = []
    cursor: dict[str, Any] = {}
    while True:
        page = await owner.get_json("/api/sessions", limit=2, **cursor)
        seen += [session["id"] for session in page["sessions"]]
        if page["nextCursor"] is None:
            break
        cursor = {"cursor": page["nextCursor"]}
    assert sorted(seen) == sorted(everything)

    for wrong in (
        {"limit": 0},
        {"limit": 201},
        {"state": "sleepy"},
        {"cursor": "nonsense"},
        {"cursor": "\0"},
    ):
        assert (await owner.get("/api/sessions", params=wrong)).status_code == 400, wrong


async def test_a_change_is_visible_in_the_next_request(stack: Stack, owner: Account) -> None:
    session_id = await stack.create(owner)
    address = f"/api/sessions/{session_id}"
    for number in range(20):
        await owner.patch(address, json={"title": f"name {number}"})
        await owner.post_json(f"{address}/model", {"model": f"model {number}"})
        session = await owner.session(session_id)
        assert (session["title"], session["model"]) == (f"name {number}", f"model {number}")


async def test_rename_stop_resume_delete(stack: Stack, owner: Account) -> None:
    session_id = await stack.create(owner)
    address = f"/api/sessions/{session_id}"

    assert (await owner.patch(address, json={"title": "a better name"})).json() == {"ok": True}
    await owner.shows(session_id, title="a better name")

    assert await owner.post_json(f"{address}/stop") == {"ok": True}
    stopped = await owner.until(session_id, "stopped")
    assert stopped["active"] is False

    assert await owner.post_json(f"{address}/resume", {}) == {"ok": True}
    resumed = await owner.until(session_id, "idle")
    assert resumed["active"] is True
    assert resumed["id"] == session_id

    assert (await owner.delete(address)).json() == {"ok": True}
    await owner.get_json(address, 404)
    assert (await owner.get_json("/api/sessions"))["sessions"] == []


async def test_a_command_without_arguments_accepts_no_fields(stack: Stack, owner: Account) -> None:
    session_id = await stack.create(owner)
    refused = await owner.post(f"/api/sessions/{session_id}/stop", json={"force": True})
    assert refused.status_code == 400
    assert refused.json()["error"]["details"]["field"] == "force"
    assert (await owner.session(session_id))["status"] == "idle"


async def test_abort_ends_only_the_turn(stack: Stack, owner: Account) -> None:
    session_id = await stack.create(owner)
    await owner.say(session_id, "slow 10000")
    await owner.until(session_id, "working")
    assert await owner.post_json(f"/api/sessions/{session_id}/abort") == {"ok": True}
    await owner.until(session_id, "idle")
    log = await owner.messages(session_id, limit=200)
    assert log[-1]["content"]["kind"] != "turn_start"
    ends = [entry["content"] for entry in log if entry["content"]["kind"] == "turn_end"]
    assert [end["reason"] for end in ends] == ["cancelled"]
    assert "launch_end" not in kinds(log)


async def test_permission_mode_and_model_change(stack: Stack, owner: Account) -> None:
    session_id = await stack.create(owner)
    address = f"/api/sessions/{session_id}"
    await owner.post_json(f"{address}/permission-mode", {"mode": "acceptEdits"})
    await owner.post_json(f"{address}/model", {"model": "demo-1-mini", "reasoningEffort": "low"})
    await owner.shows(
        session_id, permissionMode="acceptEdits", model="demo-1-mini", modelReasoningEffort="low"
    )
    wrong = await owner.post(f"{address}/permission-mode", json={"mode": "always"})
    assert wrong.status_code == 400


async def test_an_offline_machine_leaves_its_sessions_readable(stack: Stack, owner: Account) -> None:
    session_id = await stack.create(owner)
    await owner.turn(session_id, "say hello")
    await stack.stop_runner()
    session = await owner.session(session_id)
    assert session["status"] == "unreachable"
    assert session["active"] is False
    assert await owner.messages(session_id)
    for command in ("abort", "stop", "resume"):
        response = await owner.post(f"/api/sessions/{session_id}/{command}")
        assert response.status_code == 409, command
        assert response.json()["error"] == {"code": "machine_offline", "message": "Machine is offline"}

    waiting = await owner.post_json(f"/api/sessions/{session_id}/messages", {"text": "say later"}, 202)
    assert waiting["state"] == "accepted"
    await stack.start_runner()
    await owner.until(session_id, "idle")
    log = await owner.messages(session_id, limit=200)
    assert [entry["content"]["text"] for entry in log if entry["role"] == "user"] == [
        "say hello",
        "say later",
    ]
