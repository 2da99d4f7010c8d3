"""Presence: typing events and online users."""

import json

import pytest

from farsteer.core import events as ev
from farsteer.core.api import Typing
from farsteer.core.commands import Prewarm
from farsteer.core.errors import Conflict, Forbidden, NotFound
from farsteer.core.events import SessionStatus
from farsteer.hub import Hub, Scope
from farsteer.link.messages import Reply
from tests.hub.scripted import FeedRecorder, ScriptedRunner, caller, silent

ME = caller(email="me@example.com", client_id="c1", device_type="web")


async def test_typing_events_have_the_documented_form(hub: Hub, session_id: str) -> None:
    feed = FeedRecorder(hub)
    await hub.presence.typing(ME, session_id, Typing(text="hel"))
    (event,) = feed.events
    data = json.loads(event.data)
    assert isinstance(data["typing"].pop("updatedAt"), int)
    assert data == {
        "type": "typing-changed",
        "namespace": "default",
        "sessionId": session_id,
        "typing": {
            "email": "me@example.com",
            "clientId": "c1",
            "text": "hel",
            "identity": {"tokenId": "test", "label": "default", "claimedEmail": "me@example.com"},
        },
    }
    assert event.cursor is None
    assert event.merge_key is not None
    await hub.presence.typing(ME, session_id, Typing(text="", client_id="c2"))
    assert feed.of("typing-changed")[1]["typing"]["clientId"] == "c2"


async def test_typing_prewarms_a_session_without_process_once_at_a_time(
    hub: Hub, runner: ScriptedRunner, session_id: str
) -> None:
    await hub.presence.typing(ME, session_id, Typing(text="h"))
    await runner.ping()
    assert runner.commands(Prewarm) == [], "its process runs"
    runner.answers[Prewarm] = silent
    await runner.append(session_id, ev.StatusUpdate(status=SessionStatus.STOPPED))
    await hub.presence.typing(ME, session_id, Typing(text=""))
    await runner.ping()
    assert runner.commands(Prewarm) == [], "nothing is coming"
    for text in ("h", "he", "hel"):
        await hub.presence.typing(ME, session_id, Typing(text=text))
    await runner.wait_for(Prewarm)
    await runner.ping()
    assert runner.commands(Prewarm) == [Prewarm()]
    (call,) = [call for call in runner.calls if isinstance(call.command, Prewarm)]
    await runner.send(Reply(id=call.id, error=Conflict("no").record()))
    await runner.ping()
    await runner.append(session_id, ev.StatusUpdate(status=SessionStatus.FAILED))
    await hub.presence.typing(ME, session_id, Typing(text="hello"))
    await runner.wait_for(Prewarm, 2)
    await runner.disconnect()
    await hub.presence.typing(ME, session_id, Typing(text="hello?"))
    assert len(runner.commands(Prewarm)) == 2


async def test_typing_needs_the_namespace_and_the_scope(hub: Hub, session_id: str) -> None:
    with pytest.raises(NotFound):
        await hub.presence.typing(caller("other"), session_id, Typing(text="x"))
    with pytest.raises(Forbidden):
        await hub.presence.typing(caller("default", Scope.READ), session_id, Typing(text="x"))


async def test_users_who_connect_together_are_published_in_one_event(hub: Hub, session_id: str) -> None:
    feed = FeedRecorder(hub)
    for number in range(50):
        hub.presence.join(ME, f"tab {number}", session_id)
    hub.presence.join(caller(email="you@example.com"), "you")
    hub.presence.join(caller("other"), "elsewhere")
    users = hub.presence.online(ME).users
    assert [(user.email, user.client_id, user.session_id) for user in users] == [
        ("me@example.com", "c1", session_id), ("you@example.com", "", None),
    ]  # fmt: skip
    await feed.wait_until(lambda: len(feed.of("online-users-changed")) == 2)
    mine = next(event for event in feed.of("online-users-changed") if event["namespace"] == "default")
    assert [user["email"] for user in mine["users"]] == ["me@example.com", "you@example.com"]
    assert mine["users"][0]["deviceType"] == "web"


async def test_a_claimed_email_does_not_hide_who_is_online_or_typing(hub: Hub, session_id: str) -> None:
    impostor = caller(token_id="other", label="bot", email="me@example.com", client_id="c1")
    feed = FeedRecorder(hub)
    for number, one in enumerate((ME, impostor)):
        hub.presence.join(one, str(number), session_id)
        await hub.presence.typing(one, session_id, Typing(text="hi"))
    assert [user.identity for user in hub.presence.online(ME).users] == [ME.identity, impostor.identity]
    first, second = (event for event in feed.events if b"typing" in event.data)
    assert first.merge_key != second.merge_key


async def test_a_user_leaves_with_the_last_connection(hub: Hub) -> None:
    hub.presence.join(ME, "one")
    hub.presence.join(ME, "two")
    feed = FeedRecorder(hub)
    await feed.wait_until(lambda: len(feed.of("online-users-changed")) == 1)
    hub.presence.leave("one")
    hub.presence.leave("one")
    assert len(hub.presence.online(ME).users) == 1
    hub.presence.leave("two")
    await feed.wait_until(lambda: len(feed.of("online-users-changed")) == 2)
    assert feed.of("online-users-changed")[-1]["users"] == []
    assert hub.presence.online(ME).users == []
