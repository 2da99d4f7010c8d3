"""Tokens, agents, typing, health, metrics and documentation over the API."""

import re
import time
from pathlib import Path
from typing import Any

import psutil
import pytest

from farsteer import __version__
from tests.support.eventually import eventually
from tests.support.stack import OWNER, Account, Stack, farsteer


async def test_health_needs_no_token(stack: Stack) -> None:
    nobody = await stack.connect()
    health = (await nobody.get("/health")).json()
    assert health["status"] == "ok"
    assert health["version"] == __version__
    assert health["uptime"] >= 0


async def test_metrics_are_prometheus_text(stack: Stack, owner: Account) -> None:
    await owner.turn(await stack.create(owner), "say hello")
    response = await owner.get("/metrics")
    assert response.headers["content-type"] == "text/plain; version=0.0.4; charset=utf-8"
    found: dict[str, float] = {}
    for line in response.text.splitlines():
        if not line.startswith("#"):
            name, value = re.sub(r"\{kind=.*\}", "", line).split(" ")
            assert re.fullmatch(r"[a-z_]+", name)
            assert f"# TYPE {name} " in response.text
            found[name] = float(value)
    assert found["farsteer_sessions_created_total"] == 1
    assert found["farsteer_messages_accepted_total"] == 1
    assert found["farsteer_events_stored_total"] > 3
    assert found["farsteer_links"] == 1
    assert 'farsteer_limit{kind="sessions"} 10000\nfarsteer_limit{kind="machines"} 1000\n' in response.text
    assert 'farsteer_limit_used{kind="sessions"} 1\n' in response.text
    assert found["process_resident_memory_bytes"] > 10_000_000
    assert found["process_cpu_seconds_total"] > 0
    assert found["process_start_time_seconds"] == psutil.Process().create_time()


async def test_metrics_show_a_tenant_only_its_own(stack: Stack, owner: Account) -> None:
    await stack.create(owner)
    team = {"label": "team", "namespace": "team", "scopes": ["read", "admin"]}
    viewer = {"label": "viewer", "scopes": ["read"]}
    operator = {"label": "operator", "scopes": ["read", "admin"]}
    shown: dict[str, set[str]] = {}
    for token in (team, viewer, operator):
        secret = (await owner.post_json("/api/tokens", token, 201))["secret"]
        text = (await (await stack.sign_in(secret)).get("/metrics")).text
        lines = (line for line in text.splitlines() if not line.startswith(("#", "farsteer_limit{")))
        shown[str(token["label"])] = set(lines)
    used = 'farsteer_limit_used{kind="%s"} %d'
    none = {used % (kind, 0) for kind in ("sockets", "namespace_queued_bytes")}
    assert shown["team"] == none | {
        "farsteer_namespace_links 0", "farsteer_namespace_clients 0", used % ("sessions", 0), used % ("machines", 0),
    }  # fmt: skip
    assert shown["viewer"] == none | {
        "farsteer_namespace_links 1", "farsteer_namespace_clients 0", used % ("sessions", 1), used % ("machines", 1),
    }  # fmt: skip
    assert any(line.startswith("farsteer_sessions_created_total ") for line in shown["operator"])
    as_tenant = await stack.sign_in(f"{OWNER}:team")
    assert "process_" not in (await as_tenant.get("/metrics")).text


async def test_tokens_are_created_listed_and_revoked(stack: Stack, owner: Account) -> None:
    made = await owner.post_json("/api/tokens", {"label": "ci", "scopes": ["read"], "expiresIn": 3600}, 201)
    assert made["token"]["label"] == "ci"
    assert made["token"]["scopes"] == ["read"]
    assert made["token"]["expiresAt"] > time.time() * 1000
    assert made["token"]["createdBy"] == "owner"
    listed = await owner.get("/api/tokens")
    assert made["secret"] not in listed.text
    assert made["token"]["id"] in [token["id"] for token in listed.json()["tokens"]]
    assert (await owner.delete(f"/api/tokens/{made['token']['id']}")).json() == {"ok": True}
    for wrong in (
        {"label": "x", "scopes": ["everything"]},
        {"label": "x", "namespace": "a/b"},
        {"label": ""},
        {"label": "x", "expiresIn": 0},
        {"label": "x", "expiresIn": -1},
        {"label": "x", "expiresIn": 10 * 365 * 86400 + 1},
        {"label": "x", "expiresIn": 2**70},
    ):
        refused = await owner.post("/api/tokens", json=wrong)
        assert refused.status_code == 400, wrong


async def test_agents_are_listed_with_their_machines(stack: Stack, owner: Account) -> None:
    agents = (await owner.get_json("/api/agents"))["agents"]
    demo = next(agent for agent in agents if agent["name"] == "demo")
    assert demo["capabilities"]["resume"] is True
    machine = (await owner.get_json("/api/machines"))["machines"][0]
    assert [place["machineId"] for place in demo["machines"]] == [machine["id"]]
    assert demo["machines"][0]["available"] is True
    assert await owner.get_json(f"/api/machines/{machine['id']}") == {"machine": machine}


async def test_machines_are_listed_by_whether_they_are_connected(stack: Stack, owner: Account) -> None:
    async def listed(**query: Any) -> int:
        return len((await owner.get_json("/api/machines", **query))["machines"])

    async def none_is_connected() -> bool:
        return await listed(active="true") == 0

    assert (await listed(active="true"), await listed(active="false"), await listed()) == (1, 0, 1)
    await stack.stop_runner()
    await eventually(none_is_connected)
    assert (await listed(active="false"), await listed()) == (1, 1)
    await owner.get_json("/api/machines", status=400, active="maybe")


async def test_typing_is_accepted(stack: Stack, owner: Account) -> None:
    session_id = await stack.create(owner)
    address = f"/api/sessions/{session_id}/typing"
    assert await owner.post_json(address, {"text": "hel"}) == {"ok": True}
    assert await owner.post_json(address, {"text": ""}) == {"ok": True}
    assert (await owner.post(address, json={"text": "x" * 10_001})).status_code == 400
    assert await owner.get_json("/api/online-users") == {"users": []}


async def test_the_documentation_needs_no_token(stack: Stack) -> None:
    nobody = await stack.connect()
    document = await nobody.get("/openapi.json")
    assert document.headers["content-type"] == "application/json"
    assert document.json()["openapi"] == "3.1.0"
    assert (await nobody.get("/asyncapi.json")).json()["asyncapi"] == "3.0.0"
    page = await nobody.get("/docs")
    assert page.headers["content-type"] == "text/html; charset=utf-8"
    assert "style-src 'sha256-" in page.headers["content-security-policy"]
    assert "Create a session" in page.text


@pytest.mark.parametrize(
    ("proxies", "proto", "scheme"),
    [
        (("127.0.0.1",), "https", "https"),
        (("127.0.0.1",), "http, https", "https"),
        (("127.0.0.1",), "gopher", "http"),
        ((), "https", "http"),
    ],
)
@pytest.mark.slow
async def test_the_documents_have_the_address_by_which_they_were_fetched(
    home: Path, proxies: tuple[str, ...], proto: str, scheme: str
) -> None:
    config: dict[str, Any] = {"trusted_proxies": proxies, "allowed_hosts": ("farsteer.example.com",)}
    headers = {"host": "farsteer.example.com:8443", "x-forwarded-proto": proto}
    async with farsteer(home, with_runner=False, **config) as stack:
        nobody = await stack.connect()
        address = f"{scheme}://farsteer.example.com:8443"
        document = (await nobody.get("/openapi.json", headers=headers)).json()
        assert document["servers"] == [{"url": address}]
        servers = (await nobody.get("/asyncapi.json", headers=headers)).json()["servers"]
        assert (servers["http"]["protocol"], servers["http"]["host"]) == (scheme, headers["host"])
        assert f"HUB={address}\n" in (await nobody.get("/docs", headers=headers)).text
        # And directly, from the same hub.
        assert (await nobody.get("/openapi.json")).json()["servers"] == [{"url": stack.url}]
        assert f"HUB={stack.url}\n" in (await nobody.get("/docs")).text
