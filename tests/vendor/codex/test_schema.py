"""What the adapter and Codex write fits Codex's own schema."""

from __future__ import annotations

import json
from pathlib import Path

import msgspec
import pytest

from farsteer.agents import process_launch
from farsteer.agents.base import Prompt
from farsteer.agents.codex import store
from farsteer.agents.codex.protocol import KNOWN_METHODS
from farsteer.agents.conformance.harness import Harness
from farsteer.core.approvals import Outcome
from farsteer.core.errors import Conflict
from farsteer.core.events import AgentMessage
from farsteer.core.ids import new_id
from farsteer.core.modes import PermissionMode, ReasoningEffort
from tests.support.wire.recording import Recording
from tests.support.wire.stage import ECHO_SERVER
from tests.vendor.codex.conftest import QUESTION, answer_turn
from tests.vendor.codex.schema import Schema
from tests.vendor.conftest import required
from tests.vendor.pins import CODEX

pytestmark = [pytest.mark.vendor, pytest.mark.timeout(180)]


@pytest.fixture
def recording(monkeypatch: pytest.MonkeyPatch) -> Recording:
    return Recording().of((process_launch, store), monkeypatch)


@pytest.fixture
def schema(tmp_path: Path) -> Schema:
    return Schema(required(CODEX), tmp_path / "schema")


async def test_every_message_of_a_long_session_fits_the_schema(
    harness: Harness, recording: Recording, schema: Schema
) -> None:
    plan = msgspec.structs.replace(harness.plan(), mcp_servers=(ECHO_SERVER,))
    agent = await harness.launch(plan)
    await agent.run_turn("[[think:hm]][[say:one]]")
    for script, outcome in (
        ("[[escalate:touch a.txt]]", Outcome.APPROVED), ("[[escalate:touch b.txt]]", Outcome.DENIED),
        ("[[write:c.txt:hello]]", Outcome.APPROVED), ("[[escalate:touch d.txt]]", Outcome.APPROVED_FOR_SESSION),
        ('[[tool:mcp__echo/shout:{"text":"hi"}]]', Outcome.APPROVED), ("[[escalate:touch e.txt]]", Outcome.ABORT),
    ):  # fmt: skip
        await answer_turn(agent, script, outcome)
    turn_id = await agent.send_and_wait("[[say:half]][[hang]]")
    await agent.launch.steer(Prompt(turn_id=turn_id, text="[[say:on]][[hang]]", message_id=new_id()))
    await agent.launch.interrupt()
    await agent.wait_for_end(turn_id)
    await agent.run_turn("[[error:500]]")
    await agent.launch.set_permission_mode(PermissionMode.PLAN)
    await agent.launch.set_effort(ReasoningEffort.HIGH)
    await answer_turn(
        agent, f"[[tool:request_user_input:{json.dumps(QUESTION)}]]", Outcome.APPROVED, {"q": ["Blue"]}
    )
    anchor = agent.events_of(AgentMessage)[0].anchor
    await agent.launch.stop()
    native_id = agent.launch.native_id
    assert native_id is not None
    fork = await harness.launch(harness.plan(fork_of=native_id, cut_at=anchor))
    resumed = await harness.launch(harness.plan(resume=native_id, cut_at=anchor))
    await harness.adapter.list_conversations(harness.state_dir, str(harness.directory), 10)
    await harness.adapter.read_history(native_id, harness.state_dir)
    await fork.launch.stop()
    await resumed.launch.stop()
    assert fork.launch.native_id is not None
    with pytest.raises(Conflict, match="forked history"):
        await harness.adapter.delete_conversation(native_id, harness.state_dir)
    for thread_id in (fork.launch.native_id, native_id):
        await harness.adapter.delete_conversation(thread_id, harness.state_dir)
    seen = {method for exchange in recording.exchanges for method in schema.check(exchange)}
    assert {
        "thread/start", "thread/resume", "thread/fork", "thread/revert", "thread/list", "thread/read",
        "thread/turns/list", "thread/items/list", "thread/delete", "turn/start", "turn/steer", "turn/interrupt",
        "model/list", "item/commandExecution/requestApproval", "item/fileChange/requestApproval",
        "item/tool/requestUserInput", "mcpServer/elicitation/request", "item/agentMessage/delta",
        "item/reasoning/summaryTextDelta", "thread/tokenUsage/updated", "error", "turn/completed",
    } <= seen  # fmt: skip


async def test_codex_has_every_notification_that_we_know(schema: Schema) -> None:
    assert schema.notifications() >= KNOWN_METHODS
