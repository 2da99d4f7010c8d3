"""An object of another namespace is not found on any route."""

import re
from typing import Any

import msgspec

from farsteer.core.api import SessionNotCreated
from farsteer.faces.rest.app import TABLE
from tests.support.eventually import eventually
from tests.support.stack import OWNER, Account, Stack


async def test_a_foreign_id_is_not_found_on_any_route(stack: Stack, owner: Account) -> None:
    ids = await things_of(stack, owner)
    before = await owner.session(ids["sessionId"])
    foreigner = await stack.sign_in(f"{OWNER}:foreigner")
    walked = 0
    for endpoint in TABLE:
        if "{" not in endpoint.path:
            continue
        path = re.sub(r"{(\w+)}", lambda name: ids[name[1]], endpoint.path)
        content = None if endpoint.example is None else msgspec.json.encode(endpoint.example)
        response = await foreigner.request(
            endpoint.method, path, content=content, headers={"content-type": "application/json"}
        )
        assert response.status_code == 404, (endpoint.method, path, response.text)
        answer = response.json()
        error = answer["logs"][-1] if endpoint.error_type is SessionNotCreated else answer["error"]
        assert error["code"] in ("not_found", "machine_not_found")
        walked += 1
    assert walked > 15
    assert await owner.session(ids["sessionId"]) == before, "nothing has changed"


async def test_a_foreign_id_and_an_unknown_id_get_the_same_response(stack: Stack, owner: Account) -> None:
    ids = await things_of(stack, owner)
    foreigner = await stack.sign_in(f"{OWNER}:foreigner")
    foreign = await foreigner.get(f"/api/sessions/{ids['sessionId']}")
    nothing = await foreigner.get(f"/api/sessions/{ids['itemId']}")
    assert foreign.json() == nothing.json()


async def test_lists_contain_only_the_own_namespace(stack: Stack, owner: Account) -> None:
    await things_of(stack, owner)
    foreigner = await stack.sign_in(f"{OWNER}:foreigner")
    assert await foreigner.get_json("/api/sessions") == {"sessions": [], "nextCursor": None}
    assert await foreigner.get_json("/api/machines") == {"machines": []}
    assert await foreigner.get_json("/api/agents") == {"agents": []}
    assert await foreigner.get_json("/api/approvals") == {"approvals": []}
    assert await foreigner.get_json("/api/online-users") == {"users": []}
    assert await foreigner.get_json("/api/tokens") == {"tokens": []}
    assert await foreigner.get_json("/api/pairings") == {"pairings": []}


async def test_a_minted_token_stays_in_its_namespace(stack: Stack, owner: Account) -> None:
    made = await owner.post_json("/api/tokens", {"label": "t", "namespace": "team"}, 201)
    nobody = await stack.connect()
    at_home = await nobody.post("/api/auth", json={"accessToken": made["secret"]})
    assert at_home.json()["namespace"] == "team"
    abroad = await nobody.post("/api/auth", json={"accessToken": f"{made['secret']}:default"})
    assert abroad.status_code == 401


async def things_of(stack: Stack, owner: Account) -> dict[str, Any]:
    """Create one object of each kind: a turn waits for an approval, and a second message for the turn."""
    session_id = await stack.create(owner)
    await owner.say(session_id, "run echo hello")
    waiting = await owner.until(session_id, "waiting")
    item_id = await owner.say(session_id, "say later")

    async def queued() -> bool:
        items = (await owner.get_json(f"/api/sessions/{session_id}/queue"))["items"]
        return any(item["id"] == item_id and item.get("state") == "queued" for item in items)

    await eventually(queued)
    token = await owner.post_json("/api/tokens", {"label": "mine"}, 201)
    pairing = await owner.post_json("/api/pairings", {"label": "mine"}, 201)
    return {
        "machineId": waiting["machineId"],
        "sessionId": session_id,
        "approvalId": waiting["approvals"][0]["id"],
        "itemId": item_id,
        "tokenId": token["token"]["id"],
        "pairingId": pairing["pairing"]["id"],
    }
