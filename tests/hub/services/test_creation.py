"""Creation of sessions: its steps, its failures and idempotency keys."""

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

from farsteer.core import events as ev
from farsteer.core.api import CreateSession, SessionCreated
from farsteer.core.commands import Create, Delete, Send
from farsteer.core.errors import AgentError, BadRequest, Conflict, ErrorCode, Forbidden, Unprocessable
from farsteer.core.ids import new_id
from farsteer.core.modes import PermissionMode
from farsteer.core.queue import ItemState
from farsteer.hub import Hub, Scope
from farsteer.hub.link import machine_links
from farsteer.link.messages import Call, LogLine, Reply
from tests.hub.conftest import OWNER_TOKEN, create, created, failed
from tests.hub.scripted import FeedRecorder, ScriptedRunner, caller, refuse, silent

ME = caller()


def ask(runner: ScriptedRunner, **fields: Any) -> CreateSession:
    return CreateSession(machine_id=runner.info.id, directory="/work", **fields)


async def test_success_returns_the_id_and_the_steps(hub: Hub, runner: ScriptedRunner) -> None:
    feed = FeedRecorder(hub)
    success = created(await hub.sessions.create(ME, ask(runner, title="Mine")))
    assert [(line.step, line.status) for line in success.logs] == [("machine", "ok"), ("launch", "ok")]
    view = await hub.sessions.get(ME, success.session_id)
    assert (view.title, view.machine_id, view.status) == ("Mine", runner.info.id, ev.SessionStatus.IDLE)
    (added,) = feed.of("session-added")
    assert added["sessionId"] == view.id
    assert added["data"]["status"] == "idle"
    assert "partial" not in added["data"]
    assert hub.metrics.sessions_created == 1


async def test_the_request_reaches_the_runner(hub: Hub, runner: ScriptedRunner) -> None:
    await hub.sessions.create(
        ME,
        ask(
            runner, agent="claude", yolo=True, model_mode="opus", source="  ci  ", claude_agent="reviewer",
            permission_timeout=5.0,
        ),
    )  # fmt: skip
    await hub.sessions.create(ME, ask(runner, model_mode="default", source="   ", permission_mode="plan"))
    first, second = (command.spec for command in runner.commands(Create))
    assert (first.agent, first.permission_mode, first.model) == ("claude", PermissionMode.YOLO, "opus")
    assert (first.source, first.permission_timeout) == ("ci", 5.0)
    assert first.options == {"claudeAgent": "reviewer"}
    assert (second.agent, second.model, second.source) == (None, None, "external-api")
    assert second.permission_mode == "plan"


@pytest.mark.parametrize(
    ("fields", "field"),
    [
        ({"worktree_name": "x"}, "worktreeName"),
        ({"openrouter_model": "a/b", "model": "c"}, "openrouterModel"),
        ({"openrouter_model": "a/b", "model_mode": "opus"}, "openrouterModel"),
    ],
)
async def test_a_field_without_effect_is_refused(
    hub: Hub, runner: ScriptedRunner, fields: dict[str, Any], field: str
) -> None:
    refused = failed(await hub.sessions.create(ME, ask(runner, **fields)), 400)
    assert (refused.error.code, refused.error.details) == (ErrorCode.FIELD_NOT_USED, {"field": field})


async def test_a_session_gets_the_id_that_the_caller_has_chosen(hub: Hub, runner: ScriptedRunner) -> None:
    chosen = new_id()
    created = await hub.sessions.create(ME, ask(runner, session_id=chosen))
    assert isinstance(created, SessionCreated)
    assert created.session_id == chosen == runner.commands(Create)[-1].spec.id
    taken = failed(await hub.sessions.create(ME, ask(runner, session_id=chosen)), 409)
    assert taken.error.code is ErrorCode.SESSION_ID_TAKEN
    await hub.sessions.delete(ME, chosen)
    failed(await hub.sessions.create(ME, ask(runner, session_id=chosen)), 409)
    assert failed(await hub.sessions.create(ME, ask(runner, session_id="x")), 400).error.code == "invalid_id"


async def test_unknown_and_offline_machines_give_different_errors(hub: Hub) -> None:
    request = CreateSession(machine_id=new_id(), directory="/work")
    unknown = failed(await hub.sessions.create(ME, request), 404)
    assert [line.code for line in unknown.logs] == ["machine_not_found"]
    async with ScriptedRunner(hub) as runner:
        pass
    offline = failed(await hub.sessions.create(ME, ask(runner)), 409)
    assert offline.error.message == "Machine is offline"
    assert [line.code for line in offline.logs] == ["machine_offline"]
    failed(await hub.sessions.create(caller("other"), ask(runner)), 404)


async def test_a_failure_on_the_machine_returns_its_log_and_leaves_nothing(
    hub: Hub, runner: ScriptedRunner
) -> None:
    feed = FeedRecorder(hub)
    reason = Unprocessable("no such directory", code=ErrorCode.DIRECTORY_MISSING)
    lines = [LogLine(1, "directory", "no such directory", "error", "directory_missing")]
    runner.answers[Create] = refuse(reason, lines)
    failure = failed(await hub.sessions.create(ME, ask(runner)), 422)
    assert failure.error.message == "no such directory"
    assert [(line.step, line.code) for line in failure.logs] == [
        ("machine", None), ("directory", "directory_missing"),
    ]  # fmt: skip
    assert (await hub.sessions.list(ME)).sessions == []
    assert feed.of("session-added") == []
    await runner.ping()
    assert runner.commands(Delete) == []


async def test_a_machine_that_disconnects_during_a_creation_deletes_the_session_later(hub: Hub) -> None:
    runner = ScriptedRunner(hub)
    await runner.connect()
    succeed = runner.answers[Create]

    def half(call: Call) -> None:
        succeed(call)

    runner.answers[Create] = half
    creating = asyncio.create_task(hub.sessions.create(ME, ask(runner)))
    await runner.wait_for(Create)
    await runner.disconnect()
    failed(await creating, 409)
    async with ScriptedRunner(hub, info=runner.info, logs=runner.logs) as again:
        assert again.welcome is not None
        assert again.welcome.deleted == list(runner.logs)


async def test_a_creation_that_times_out_is_deleted_on_the_machine(
    hub: Hub, runner: ScriptedRunner, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(machine_links, "CREATE_SECONDS", 0.05)
    runner.answers[Create] = silent
    failure = failed(await hub.sessions.create(ME, ask(runner)), 503)
    assert failure.logs[-1].code == "timeout"
    await runner.wait_for(Delete)


async def test_the_prompt_is_the_first_message(hub: Hub, runner: ScriptedRunner) -> None:
    runner.confirms_messages = False
    session_id = await create(hub, runner, prompt="do it")
    (sent,) = await runner.wait_for(Send)
    assert sent.item.text == "do it"
    (item,) = (await hub.messages.queue(ME, session_id)).items
    assert (item.id, item.state) == (sent.item.id, ItemState.ACCEPTED)


async def test_nobody_sees_a_session_before_it_is_ready(hub: Hub, runner: ScriptedRunner) -> None:
    pending: list[Call] = []
    runner.answers[Create] = pending.append
    creating = asyncio.create_task(hub.sessions.create(ME, ask(runner)))
    await runner.wait_for(Create)
    assert (await hub.sessions.list(ME)).sessions == []
    feed = FeedRecorder(hub)
    (call,) = pending
    reply = runner._created(call)
    await runner.append(call.session, ev.LaunchStart(generation=1, resumed=False))
    assert feed.events == []
    await runner.send(reply)
    created(await creating)
    assert [event.type for event in feed.events] == ["session-added", "message-received"]
    page = json.loads(await hub.messages.list(ME, call.session))
    assert [message["content"]["kind"] for message in page["messages"]] == ["launch_start"]


class TestIdempotencyKeys:
    async def test_the_same_request_gets_the_same_answer(
        self, hub: Hub, runner: ScriptedRunner, home: Path
    ) -> None:
        first = await hub.sessions.create(ME, ask(runner, prompt="once"), idempotency_key="k")
        again = await hub.sessions.create(ME, ask(runner, prompt="once"), idempotency_key="k")
        assert again == first
        assert len(runner.commands(Create)) == 1
        await hub.close()
        later = await Hub.open(home, OWNER_TOKEN)
        assert await later.sessions.create(ME, ask(runner, prompt="once"), idempotency_key="k") == first
        await later.close()

    async def test_a_repeated_request_waits_for_the_first(self, hub: Hub, runner: ScriptedRunner) -> None:
        pending: list[Call] = []
        runner.answers[Create] = pending.append
        both = [
            asyncio.create_task(hub.sessions.create(ME, ask(runner), idempotency_key="k")) for _ in range(2)
        ]
        await runner.wait_for(Create)
        await runner.send(runner._created(pending[0]))
        first, second = await asyncio.gather(*both)
        assert first == second
        assert len(runner.commands(Create)) == 1

    async def test_it_continues_when_its_caller_is_cancelled(self, hub: Hub, runner: ScriptedRunner) -> None:
        pending: list[Call] = []
        runner.answers[Create] = pending.append
        left = asyncio.create_task(hub.sessions.create(ME, ask(runner), idempotency_key="k"))
        await runner.wait_for(Create)
        left.cancel()
        await asyncio.wait([left])
        again = asyncio.create_task(hub.sessions.create(ME, ask(runner), idempotency_key="k"))
        await runner.send(runner._created(pending[0]))
        created(await again)
        assert len(runner.commands(Create)) == 1

    async def test_another_request_under_the_same_key_is_refused(
        self, hub: Hub, runner: ScriptedRunner
    ) -> None:
        pending: list[Call] = []
        runner.answers[Create] = pending.append
        first = asyncio.create_task(hub.sessions.create(ME, ask(runner), idempotency_key="k"))
        await runner.wait_for(Create)
        for _ in range(2):
            with pytest.raises(Conflict) as error:
                await hub.sessions.create(ME, ask(runner, title="other"), idempotency_key="k")
            assert error.value.code is ErrorCode.IDEMPOTENCY_MISMATCH
            if not first.done():
                await runner.send(runner._created(pending[0]))
                await first

    async def test_a_failure_can_be_tried_again(self, hub: Hub, runner: ScriptedRunner) -> None:
        succeed = runner.answers[Create]
        runner.answers[Create] = refuse(AgentError("did not start"))
        failed(await hub.sessions.create(ME, ask(runner), idempotency_key="k"), 422)
        runner.answers[Create] = succeed
        created(await hub.sessions.create(ME, ask(runner), idempotency_key="k"))

    async def test_keys_of_other_namespaces_are_other_keys(self, hub: Hub, runner: ScriptedRunner) -> None:
        mine = await hub.sessions.create(ME, ask(runner), idempotency_key="k")
        async with ScriptedRunner(hub, "other") as theirs:
            other = await hub.sessions.create(caller("other"), ask(theirs), idempotency_key="k")
        assert created(other) != created(mine)

    @pytest.mark.parametrize("key", ["", "  ", "x" * 256])
    async def test_a_malformed_key_is_refused(self, hub: Hub, runner: ScriptedRunner, key: str) -> None:
        with pytest.raises(BadRequest):
            await hub.sessions.create(ME, ask(runner), idempotency_key=key)


async def test_creating_needs_the_scope_write(hub: Hub, runner: ScriptedRunner) -> None:
    with pytest.raises(Forbidden):
        await hub.sessions.create(caller("default", Scope.READ), ask(runner))


async def test_a_creation_interrupted_by_a_restart_leaves_nothing(home: Path) -> None:
    hub = await Hub.open(home, OWNER_TOKEN)
    runner = ScriptedRunner(hub)
    await runner.connect()
    runner.answers[Create] = lambda call: Reply(id=call.id) if call.id < 0 else None
    creating = asyncio.create_task(hub.sessions.create(ME, ask(runner)))
    await runner.wait_for(Create)
    await hub.close()
    failed(await creating, 409)
    again = await Hub.open(home, OWNER_TOKEN)
    assert (await again.sessions.list(ME)).sessions == []
    await again.close()
    await runner.wait_closed()
