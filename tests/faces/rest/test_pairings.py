"""Pairing over REST."""

from __future__ import annotations

from tests.support.stack import OWNER, Stack


async def test_a_device_without_a_token_redeems_a_code(hub_only: Stack) -> None:
    owner = await hub_only.sign_in()
    made = await owner.post_json("/api/pairings", {"label": "phone", "scopes": ["read"]}, 201)
    assert made["code"] not in str(made["pairing"])
    device = await hub_only.connect()
    answer = await device.post("/api/pairings/redeem", json={"code": made["code"], "label": "Firefox"})
    assert answer.status_code == 201
    body = answer.json()
    assert (body["token"]["label"], body["token"]["device"]) == ("phone", "Firefox")
    phone = await hub_only.sign_in(body["secret"])
    assert (await phone.get_json("/api/sessions"))["sessions"] == []
    assert (await phone.get("/api/pairings")).json()["error"]["details"] == {"scope": "admin"}
    again = await device.post("/api/pairings/redeem", json={"code": made["code"], "label": "Firefox"})
    assert (again.status_code, again.json()["error"]["code"]) == (404, "not_found")
    [listed] = (await owner.get_json("/api/tokens"))["tokens"]
    await owner.delete(f"/api/tokens/{listed['id']}")
    assert (await phone.get("/api/sessions")).status_code == 401


async def test_guesses_from_one_address_are_limited(hub_only: Stack) -> None:
    device = await hub_only.connect()
    statuses = [
        (await device.post("/api/pairings/redeem", json={"code": "WRONG-WRONG", "label": "x"})).status_code
        for _ in range(11)
    ]
    assert statuses == [404] * 10 + [429]
    assert (await hub_only.sign_in(OWNER)).headers["authorization"], "signing in is not limited by it"


async def test_an_open_pairing_is_listed_and_cancelled(hub_only: Stack) -> None:
    owner = await hub_only.sign_in()
    made = await owner.post_json("/api/pairings", status=201)
    assert (await owner.get_json("/api/pairings"))["pairings"] == [made["pairing"]]
    path = f"/api/pairings/{made['pairing']['id']}"
    assert (await owner.delete(path)).status_code == 200
    assert (await owner.delete(path)).status_code == 404
    device = await hub_only.connect()
    answer = await device.post("/api/pairings/redeem", json={"code": made["code"], "label": "x"})
    assert answer.status_code == 404
