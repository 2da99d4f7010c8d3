"""Whatever a client claims to be, the token that it used is recorded as who acted."""

from __future__ import annotations

from typing import Any

import pytest

from tests.support.stack import Account, Stack

CLAIM = "boss@example.com"


@pytest.fixture
async def impostor(stack: Stack, owner: Account) -> tuple[Account, dict[str, Any]]:
    """A client that claims to be somebody else, and its identity as the hub knows it."""
    made = await owner.post_json("/api/tokens", {"label": "ci"}, 201)
    account = await stack.sign_in(made["secret"], email=CLAIM, clientId="c1")
    return account, {"tokenId": made["token"]["id"], "label": "ci", "claimedEmail": CLAIM}


async def test_who_sent_answered_rewound_and_configured_is_the_token(
    stack: Stack, owner: Account, impostor: tuple[Account, dict[str, Any]]
) -> None:
    account, identity = impostor
    session = await stack.create(account, prompt="say first")
    await owner.until(session, "idle")
    item = await account.say(session, "write notes.txt hello")
    approval = (await owner.until(session, "waiting"))["approvals"][0]
    path = f"/api/sessions/{session}/permissions/{approval['id']}"
    answered = await account.post_json(f"{path}/approve", {})
    assert (answered["by"], answered["identity"]) == (CLAIM, identity)
    late = await owner.post_json(f"{path}/deny", {}, 409)
    assert (late["error"]["details"]["by"], late["error"]["details"]["identity"]) == (CLAIM, identity)
    await owner.until(session, "idle")
    await account.post_json(f"/api/sessions/{session}/permission-mode", {"mode": "plan"})
    log = [entry["content"] for entry in await owner.messages(session, limit=200)]
    first, second = (entry for entry in log if entry["kind"] == "user_message")
    assert second["itemId"] == item
    for message in (first, second):
        assert (message["sentFrom"], message["identity"]) == (CLAIM, identity)
    [resolved] = (entry for entry in log if entry["kind"] == "approval_resolved")
    assert (resolved["by"], resolved["identity"]) == (CLAIM, identity)
    assert log[-1] == {"kind": "mode_update", "permissionMode": "plan", "identity": identity}
    text = (await owner.get(f"/api/sessions/{session}/export", params={"format": "markdown"})).text
    assert f"ci (claims to be {CLAIM})" in text
    entries = await owner.messages(session, limit=200)
    seq = next(entry["seq"] for entry in entries if entry["content"] == second)
    await account.post_json(f"/api/sessions/{session}/rewind", {"seq": seq})
    rewound = (await owner.messages(session))[-1]["content"]
    assert (rewound["kind"], rewound["by"], rewound["identity"]) == ("rewound", CLAIM, identity)


async def test_the_owner_is_recorded_as_the_owner(stack: Stack, owner: Account) -> None:
    session = await stack.create(owner)
    log = await owner.turn(session, "say hello")
    [message] = (entry["content"] for entry in log if entry["content"]["kind"] == "user_message")
    assert message["identity"] == {"tokenId": "owner", "label": "owner"}


async def test_a_client_cannot_state_its_identity(stack: Stack, owner: Account) -> None:
    session = await stack.create(owner)
    body = {"text": "hello", "identity": {"tokenId": "owner", "label": "owner"}}
    refused = await owner.post_json(f"/api/sessions/{session}/messages", body, 400)
    assert refused["error"]["code"] == "unknown_field"
