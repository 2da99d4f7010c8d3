"""The contract of docs/api.md: sign in, machines, creating sessions, namespaces."""

import base64
import subprocess
from pathlib import Path
from typing import Any

import httpx
import msgspec
import pytest

from farsteer.core.ids import is_uuid, new_id
from tests.support.stack import OWNER, Account, Stack


@pytest.fixture
async def anybody(stack: Stack) -> httpx.AsyncClient:
    return await stack.connect()


@pytest.fixture
async def machine_id(owner: Account) -> str:
    return (await owner.get_json("/api/machines"))["machines"][0]["id"]


async def auth(client: httpx.AsyncClient, access_token: str, **more: str) -> httpx.Response:
    return await client.post("/api/auth", json={"accessToken": access_token, **more})


def claims(jwt: str) -> dict[str, Any]:
    header, payload, _ = (base64.urlsafe_b64decode(part + "==") for part in jwt.split("."))
    assert msgspec.json.decode(header)["alg"] == "HS256"
    return msgspec.json.decode(payload)


def make_repository(path: Path) -> None:
    identity = ["-c", "user.name=t", "-c", "user.email=t@example.com"]
    for command in (["init", "-q"], [*identity, "commit", "-q", "--allow-empty", "-m", "first"]):
        subprocess.run(["git", *command], cwd=path, check=True)


# -- Sign in


async def test_an_access_token_is_exchanged_for_a_jwt(anybody: httpx.AsyncClient) -> None:
    response = await auth(anybody, OWNER)
    assert response.status_code == 200
    body = response.json()
    assert isinstance(body["user"]["id"], int)
    assert body["user"]["email"]
    found = claims(body["token"])
    assert found["uid"] == body["user"]["id"]
    assert found["ns"] == "default"
    assert found["exp"] - found["iat"] == 15 * 60
    machines = await anybody.get("/api/machines", headers={"Authorization": f"Bearer {body['token']}"})
    assert machines.status_code == 200


async def test_the_suffix_names_the_namespace(anybody: httpx.AsyncClient) -> None:
    body = (await auth(anybody, f"{OWNER}:team")).json()
    assert claims(body["token"])["ns"] == "team"


async def test_who_signs_in_may_say_how_others_see_him(anybody: httpx.AsyncClient) -> None:
    body = (await auth(anybody, OWNER, email="ada@example.com", clientId="c1", deviceType="phone")).json()
    assert body["user"]["email"] == "ada@example.com"
    assert body["user"]["clientId"] == "c1"


async def test_a_wrong_access_token_is_refused(anybody: httpx.AsyncClient) -> None:
    for wrong in ("nonsense", f"{OWNER}x", f"x{OWNER}", f"{OWNER}:", f":{OWNER}", f"{OWNER}:a/b"):
        response = await auth(anybody, wrong)
        assert response.status_code == 401, wrong
        assert response.json()["error"]["code"] == "unauthorized"
        assert OWNER not in response.text


# -- Requests: machines


async def test_machines_say_whether_they_are_active(owner: Account) -> None:
    body = await owner.get_json("/api/machines")
    assert len(body["machines"]) == 1
    machine = body["machines"][0]
    assert is_uuid(machine["id"])
    assert machine["active"] is True


# -- Create a session


async def test_a_session_is_created(stack: Stack, owner: Account, machine_id: str) -> None:
    response = await owner.post(
        "/api/sessions",
        json={
            "machineId": machine_id,
            "directory": stack.directory(),
            "agent": "demo",
            "source": "external-api",
        },
    )
    assert response.status_code == 200
    body = response.json()
    assert body.keys() == {"type", "sessionId", "logs"}
    assert body["type"] == "success"
    assert is_uuid(body["sessionId"])
    assert [line["step"] for line in body["logs"]]
    assert all(line.keys() >= {"timestamp", "step", "message", "status"} for line in body["logs"])
    session = await owner.session(body["sessionId"])
    assert session["status"] == "idle"
    assert session["source"] == "external-api"


async def test_source_is_external_api_unless_said(stack: Stack, owner: Account) -> None:
    assert (await owner.session(await stack.create(owner)))["source"] == "external-api"
    assert (await owner.session(await stack.create(owner, source="jenkins")))["source"] == "jenkins"


async def test_every_documented_field_is_accepted(stack: Stack, owner: Account) -> None:
    session_id = await stack.create(
        owner,
        yolo=True,
        sessionType="simple",
        permissionMode="plan",
        modelMode="default",
        modelReasoningEffort="xhigh",
        source="tests",
    )
    session = await owner.session(session_id)
    assert session["permissionMode"] == "plan", "a named mode wins over yolo"
    assert session["modelReasoningEffort"] == "xhigh"


@pytest.mark.parametrize(
    ("field", "value"),
    [("claudeAgent", "reviewer"), ("openrouterModel", "vendor/model"), ("worktreeName", "x")],
)
async def test_a_field_that_the_agent_does_not_use_is_refused(
    stack: Stack, owner: Account, field: str, value: str
) -> None:
    (machine,) = (await owner.get_json("/api/machines"))["machines"]
    body = {"machineId": machine["id"], "directory": stack.directory(), "agent": "demo", field: value}
    refused = await owner.post_json("/api/sessions", body, 400)
    assert refused["details"] == {"field": field}
    assert refused["logs"][-1]["code"] == "field_not_used"


async def test_a_free_uuid_is_the_id_of_the_session_everywhere(stack: Stack, owner: Account) -> None:
    chosen = "5bd86ac3-2a1e-4c3f-9d0a-1f2e3d4c5b6a"
    assert await stack.create(owner, sessionId=chosen) == chosen
    assert (await owner.session(chosen))["nativeId"] == chosen
    (machine,) = (await owner.get_json("/api/machines"))["machines"]
    body = {
        "machineId": machine["id"],
        "directory": stack.directory(),
        "agent": "demo",
        "sessionId": chosen,
    }
    refused = await owner.post_json("/api/sessions", body, 409)
    assert refused["logs"][-1]["code"] == "session_id_taken"


async def test_the_prompt_is_the_first_message(stack: Stack, owner: Account) -> None:
    session_id = await stack.create(owner, prompt="say hello", title="greeting", model="demo-1-mini")
    session = await owner.until(session_id, "idle")
    assert session["title"] == "greeting"
    assert session["model"] == "demo-1-mini"
    log = await owner.messages(session_id, limit=200)
    assert [entry["content"]["text"] for entry in log if entry["role"] == "user"] == ["say hello"]
    assert "hello" in [entry["content"].get("text") for entry in log if entry["role"] == "agent"]


async def test_no_message_is_injected(stack: Stack, owner: Account) -> None:
    session_id = await stack.create(owner)
    assert not [entry for entry in await owner.messages(session_id) if entry["role"] == "user"]


async def test_a_worktree_is_made_beside_the_repository(stack: Stack, owner: Account) -> None:
    repository = Path(stack.directory("repository"))
    make_repository(repository)
    session_id = await stack.create(
        owner, directory=str(repository), sessionType="worktree", worktreeName="feature"
    )
    session = await owner.session(session_id)
    assert session["sessionType"] == "worktree"
    assert session["worktree"]["base"] == str(repository)
    path = Path(session["worktree"]["path"])
    assert session["directory"] == str(path)
    assert path.parent.parent == repository.parent
    assert (path / ".git").is_file()


def failed(response: httpx.Response, status: int, code: str) -> str:
    """Return the message of a documented failure."""
    assert response.status_code == status, response.text
    body = response.json()
    assert body.keys() == {"type", "message", "logs"}
    assert body["type"] == "error"
    assert body["logs"][-1]["status"] == "error"
    assert body["logs"][-1]["code"] == code
    return body["message"]


async def test_a_machine_that_is_offline(stack: Stack, owner: Account, machine_id: str) -> None:
    await stack.stop_runner()
    body = {"machineId": machine_id, "directory": stack.directory(), "agent": "demo"}
    response = await owner.post("/api/sessions", json=body)
    assert failed(response, 409, "machine_offline") == "Machine is offline"
    machines = (await owner.get_json("/api/machines"))["machines"]
    assert [(machine["id"], machine["active"]) for machine in machines] == [(machine_id, False)]


FAILURES: list[tuple[dict[str, Any], int, str, str]] = [
    ({"machineId": new_id()}, 404, "machine_not_found", "machine"),
    ({"machineId": "../x"}, 404, "machine_not_found", "machine"),
    ({"directory": "/nowhere/at/all"}, 422, "directory_missing", "/nowhere/at/all"),
    ({"directory": "relative"}, 422, "directory_not_allowed", "relative"),
    ({"directory": "/tmp/\0x"}, 422, "directory_not_allowed", ""),
    ({"agent": "nobody"}, 422, "agent_unknown", "nobody"),
    ({"sessionType": "worktree"}, 422, "not_a_repository", ""),
    ({"colour": "red"}, 400, "unknown_field", "colour"),
    ({"permissionMode": "always"}, 400, "bad_request", "$.permissionMode"),
    ({"modelMode": "gpt-1"}, 400, "bad_request", "$.modelMode"),
    ({"yolo": "yes"}, 400, "bad_request", "$.yolo"),
    ({"machineId": None}, 400, "bad_request", "$.machineId"),
    ({"directory": ""}, 400, "bad_request", "$.directory"),
]


async def test_a_creation_that_fails_says_why(stack: Stack, owner: Account, machine_id: str) -> None:
    body = {"machineId": machine_id, "directory": stack.directory(), "agent": "demo"}
    for change, status, code, said in FAILURES:
        response = await owner.post("/api/sessions", json={**body, **change})
        assert said in failed(response, status, code), change
    assert (await owner.get_json("/api/sessions"))["sessions"] == []


async def test_a_creation_that_cannot_be_read_fails_in_the_same_shape(owner: Account) -> None:
    json = {"content-type": "application/json"}
    failed(await owner.post("/api/sessions", content=b"{", headers=json), 400, "invalid_json")
    failed(await owner.post("/api/sessions", content=b"{}", headers=json), 400, "bad_request")
    failed(await owner.post("/api/sessions", content=b"{}"), 415, "unsupported_media")
    too_long = b'{"prompt":"' + b"x" * (17 * 1024 * 1024) + b'"}'
    failed(await owner.post("/api/sessions", content=too_long, headers=json), 413, "too_large")


async def test_an_idempotency_key_makes_one_session(stack: Stack, owner: Account, machine_id: str) -> None:
    body = {"machineId": machine_id, "directory": stack.directory(), "agent": "demo"}
    key = {"Idempotency-Key": "job-17"}
    first = await owner.post("/api/sessions", json=body, headers=key)
    second = await owner.post("/api/sessions", json=body, headers=key)
    assert first.json() == second.json()
    assert len((await owner.get_json("/api/sessions"))["sessions"]) == 1

    other = await owner.post("/api/sessions", json={**body, "title": "other"}, headers=key)
    failed(other, 409, "idempotency_mismatch")
    for wrong in ("", "x" * 201):
        refused = await owner.post("/api/sessions", json=body, headers={"Idempotency-Key": wrong})
        failed(refused, 400, "bad_request")


# -- Namespaces


async def test_namespaces_are_isolated(stack: Stack, owner: Account) -> None:
    session_id = await stack.create(owner)
    stranger = await stack.sign_in(f"{OWNER}:elsewhere")
    assert (await stranger.get_json("/api/machines"))["machines"] == []
    assert (await stranger.get_json("/api/sessions"))["sessions"] == []
    await stranger.get_json(f"/api/sessions/{session_id}", 404)
    machine_id = (await owner.get_json("/api/machines"))["machines"][0]["id"]
    body = {"machineId": machine_id, "directory": stack.directory()}
    failed(await stranger.post("/api/sessions", json=body), 404, "machine_not_found")
