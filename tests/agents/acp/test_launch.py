"""The adapter with a real process: what the simulated agent does wrong, and what it asks for."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import pytest

from farsteer.agents.acp.adapter import AcpAdapter
from farsteer.agents.base import ApprovalAsked, Registered
from farsteer.agents.catalog.definition import NativeModeNames, Trap
from farsteer.agents.conformance import Prompts
from farsteer.agents.conformance.harness import Harness
from farsteer.core.approvals import ApprovalKind, Outcome
from farsteer.core.errors import AgentError, BadRequest, ErrorCode, NotCapable
from farsteer.core.events import (
    AgentMessage,
    CommandsUpdate,
    ModeUpdate,
    Notice,
    Other,
    ToolCallUpdate,
    TurnEndReason,
    UsageUpdate,
    UserMessage,
)
from farsteer.core.modes import PermissionMode, ReasoningEffort
from tests.support.acp_simulator import definition, install
from tests.support.permission_modes import Scripts, observe_permission_modes

pytestmark = pytest.mark.slow

Start = Callable[..., Harness]
SCRIPTS = Scripts(read="read {path}", edit="write {path} {word}", command="run touch {name}")


@pytest.fixture
async def start(home: Path, tmp_path: Path) -> AsyncIterator[Start]:
    """Return a harness for the simulator with faults, and with changes of its definition."""
    started: list[Harness] = []

    def make(*faults: str, **changes: Any) -> Harness:
        adapter = AcpAdapter("simulator", definition(**changes), install(tmp_path, *faults))
        started.append(Harness(adapter, Prompts(answer="hi", long="work"), tmp_path, 10.0))
        return started[-1]

    yield make
    for harness in started:
        await harness.close()


def texts(agent: Any, kind: type[Any] = AgentMessage) -> list[str]:
    return [event.text for event in agent.events_of(kind)]


async def test_a_turn_reports_tokens_cost_and_context(start: Start) -> None:
    agent = await start().launch()
    await agent.run_turn("think hm")
    context, tokens = agent.events_of(UsageUpdate)
    assert (context.context_used, context.context_size, context.cost_usd) == (110, 1000, 0.5)
    assert (tokens.input_tokens, tokens.cache_read_tokens, tokens.output_tokens) == (60, 40, 10)
    await agent.run_turn("think hm")
    assert agent.events_of(UsageUpdate)[2].cost_usd is None, "the agent reports the sum of the session"


async def test_every_permission_mode_means_what_it_means_for_every_agent(start: Start) -> None:
    observed = await observe_permission_modes(start(), SCRIPTS)
    expected = {
        "default": ("runs", "asks", "asks"), "acceptEdits": ("runs", "runs", "asks"),
        "bypassPermissions": ("runs", "runs", "runs"), "plan": ("runs", "denied", "denied"),
        "read-only": ("runs", "denied", "denied"), "safe-yolo": ("runs", "runs", "runs"),
        "yolo": ("runs", "runs", "runs"),
    }  # fmt: skip
    actions = ("read", "edit", "command")
    assert observed == {
        f"`{mode}`, {action}": reaction
        for mode, row in expected.items()
        for action, reaction in zip(actions, row, strict=True)
    }


async def test_an_edit_outside_of_the_directory_is_asked_for_in_every_mode_but_the_freest(
    start: Start,
) -> None:
    harness = start()
    agent = await harness.launch(harness.plan(mode=PermissionMode.SAFE_YOLO))
    outside = harness.directory.parent / "outside.txt"
    turn = await agent.send(f"write {outside} text")
    (approval,) = await agent.wait_for_approvals()
    assert approval.arguments is not None
    await agent.answer(approval, Outcome.DENIED)
    await agent.wait_for_end(turn)
    assert not outside.exists()


async def test_the_asking_mode_is_set_in_an_agent_that_starts_loose(start: Start) -> None:
    harness = start("starts_loose")
    agent = await harness.launch()
    await agent.send("run touch made.txt")
    await agent.wait_for_approvals()
    assert not (harness.directory / "made.txt").exists()


@pytest.mark.parametrize("fault", ["keeps_mode", "new_modes"])
async def test_an_agent_that_cannot_be_made_to_ask_is_not_started(start: Start, fault: str) -> None:
    with pytest.raises(AgentError) as caught:
        await start("starts_loose", fault).launch()
    assert caught.value.code is ErrorCode.AGENT_PROTOCOL


async def test_an_unknown_mode_of_the_agent_counts_as_the_loosest_and_is_put_back(start: Start) -> None:
    agent = await start(modes=NativeModeNames(ask="ask")).launch()
    await agent.run_turn("loosen")
    assert [event.permission_mode for event in agent.events_of(ModeUpdate)] == [PermissionMode.YOLO]
    turn = await agent.send("settings")
    await agent.wait_for_end(turn)
    assert texts(agent)[-1].startswith("yolo")
    await agent.launch.set_permission_mode(PermissionMode.DEFAULT)
    await agent.run_turn("settings")
    assert texts(agent)[-1].startswith("ask")


@pytest.mark.parametrize("faults", [(), ("old_settings",)])
async def test_model_and_effort_change_in_both_forms_of_settings(
    start: Start, faults: tuple[str, ...]
) -> None:
    harness = start(*faults)
    agent = await harness.launch()
    assert harness.adapter.models == ("sim-1", "sim-2")
    await agent.launch.set_model("sim-2")
    if faults:
        with pytest.raises(BadRequest) as caught:
            await agent.launch.set_effort(ReasoningEffort.HIGH)
    else:
        await agent.launch.set_effort(ReasoningEffort.HIGH)
        with pytest.raises(BadRequest) as caught:
            await agent.launch.set_effort(ReasoningEffort.XHIGH)
        with pytest.raises(BadRequest):
            await agent.launch.set_model("sim-9")
    assert caught.value.code is ErrorCode.EFFORT_UNKNOWN
    await agent.run_turn("settings")
    assert texts(agent) == ["ask sim-2 medium" if faults else "ask sim-2 high"]


async def test_a_load_without_resume_repeats_nothing(start: Start) -> None:
    harness = start("no_resume", "late_replay", traps=(Trap.REPLAY_AFTER_LOAD,))
    agent = await harness.launch()
    await agent.run_turn("The word is apricot.")
    resumed = await harness.relaunch(agent)
    assert resumed.outputs_of(Registered)[0].native_id == agent.launch.native_id
    assert resumed.events_of(AgentMessage) == resumed.events_of(UserMessage) == []
    await resumed.run_turn("recall")
    assert texts(resumed) == ["The word is apricot."]


async def test_an_agent_that_can_only_load_is_resumed_and_not_forked(start: Start) -> None:
    harness = start("load_only")
    agent = await harness.launch()
    await agent.run_turn("The word is apricot.")
    resumed = await harness.relaunch(agent)
    await resumed.run_turn("recall")
    assert "apricot" in texts(resumed)[-1]
    with pytest.raises(NotCapable):
        await harness.launch(harness.plan(fork_of=agent.launch.native_id))


async def test_a_missing_session_is_found_out_although_the_agent_does_not_say_so(start: Start) -> None:
    harness = start("no_resume", "vague_errors")
    with pytest.raises(AgentError) as caught:
        await harness.launch(harness.plan(resume="ses_gone"))
    assert caught.value.code is ErrorCode.CONVERSATION_MISSING


async def test_an_agent_authenticates_if_its_definition_says_how(start: Start) -> None:
    agent = await start("needs_login", auth_method="key").launch()
    assert (await agent.run_turn("hi")).reason is TurnEndReason.END_TURN


async def test_an_agent_that_is_not_logged_in_says_how_to_log_in(start: Start) -> None:
    with pytest.raises(AgentError, match="not logged in: run `sim login`"):
        await start("needs_login", login="run `sim login`").launch()


async def test_another_version_of_the_protocol_is_refused(start: Start) -> None:
    with pytest.raises(AgentError) as caught:
        await start("version_2").launch()
    assert caught.value.code is ErrorCode.AGENT_PROTOCOL


async def test_updates_before_the_answer_that_names_the_session_are_kept(start: Start) -> None:
    agent = await start("early_updates").launch()
    (update,) = agent.events_of(CommandsUpdate)
    assert [command.name for command in update.commands] == ["review"]


async def test_a_turn_with_an_error_fails_with_its_words(start: Start) -> None:
    agent = await start(traps=(Trap.KEEPS_FAILED_PROMPTS,)).launch()
    ended = await agent.run_turn("fail -32603")
    assert ended.reason is TurnEndReason.FAILED
    assert "the model failed" in (ended.error or "")
    assert [event.code for event in agent.events_of(Notice)] == ["prompt_kept"]


async def test_an_empty_turn_of_an_agent_that_hides_errors_fails(start: Start) -> None:
    harness = start(traps=(Trap.EMPTY_TURN_IS_ERROR,))
    agent = await harness.launch()
    assert (await agent.run_turn("nothing")).reason is TurnEndReason.FAILED
    assert (await agent.run_turn("hi")).reason is TurnEndReason.END_TURN


async def test_an_interrupted_turn_is_cancelled_whatever_the_agent_says(start: Start) -> None:
    agent = await start("ends_anyhow").launch()
    turn = await agent.send_and_wait("work")
    await agent.launch.interrupt()
    assert (await agent.wait_for_end(turn)).reason is TurnEndReason.CANCELLED


@pytest.mark.parametrize("reason", ["max_tokens", "refusal", "cancelled", "max_turn_requests"])
async def test_a_stop_reason_is_passed_on(start: Start, reason: str) -> None:
    agent = await start().launch()
    assert (await agent.run_turn(f"stop {reason}")).reason.value == reason


async def test_an_unknown_stop_reason_ends_the_turn_with_a_notice(start: Start) -> None:
    agent = await start().launch()
    assert (await agent.run_turn("stop tired")).reason is TurnEndReason.END_TURN
    assert "tired" in texts(agent, Notice)[0]


async def test_an_agent_that_outlives_its_input_is_ended(start: Start) -> None:
    harness = start("outlives_stdin", traps=(Trap.OUTLIVES_STDIN,))
    agent = await harness.launch()
    await agent.launch.stop(10.0)
    assert harness.leftover_processes() == []


async def test_processes_that_make_a_database_at_their_first_start_are_not_started_together(
    start: Start,
) -> None:
    harness = start("makes_database", traps=(Trap.FIRST_START_ALONE,))
    agents = await asyncio.gather(*(harness.launch() for _ in range(4)))
    assert len({agent.launch.native_id for agent in agents}) == 4


async def test_a_form_is_answered_with_the_values_of_its_choices(start: Start) -> None:
    agent = await start().launch()
    turn = await agent.send("ask")
    (approval,) = await agent.wait_for_approvals()
    assert approval.kind is ApprovalKind.QUESTION
    await agent.answer(approval, Outcome.APPROVED, {"color": ["Blue"], "size": ["3"]})
    await agent.wait_for_end(turn)
    assert texts(agent) == ["You chose {'action': 'accept', 'content': {'color': 'b', 'size': 3}}."]


async def test_an_approved_plan_grants_the_mode_of_its_option(start: Start) -> None:
    harness = start()
    agent = await harness.launch(harness.plan(mode=PermissionMode.PLAN))
    turn = await agent.send("plan")
    (approval,) = await agent.wait_for_approvals()
    assert approval.plan == "1. Read\n2. Write"
    assert [option.mode for option in approval.options] == [PermissionMode.YOLO, PermissionMode.DEFAULT, None]
    await agent.answer(approval, Outcome.APPROVED)
    await agent.wait_for_end(turn)
    assert [event.permission_mode for event in agent.events_of(ModeUpdate)] == [PermissionMode.DEFAULT]
    await agent.send("run touch made.txt")
    await agent.wait_for_approvals(2)


async def test_unknown_requests_are_refused_and_unknown_updates_kept(start: Start) -> None:
    agent = await start().launch()
    await agent.run_turn("unknown")
    assert texts(agent) == ["code -32601"]
    kinds = [event.native_kind for event in agent.events_of(Other)]
    assert kinds == ["new_thing", "tool_call", "session/new_thing"]


async def test_the_output_of_a_command_is_in_its_result(start: Start) -> None:
    harness = start()
    agent = await harness.launch(harness.plan(mode=PermissionMode.YOLO))
    await agent.run_turn("run echo first; echo second")
    result = agent.events_of(ToolCallUpdate)[-1]
    assert [getattr(block, "text", None) for block in result.content] == ["first\nsecond\n"]


async def call(agent: Any, method: str, **params: Any) -> Any:
    """Let the agent call a method of ours, and return our answer."""
    before = len(agent.events_of(AgentMessage))
    await agent.run_turn(f"call {method} {json.dumps(params)}")
    return json.loads(texts(agent)[before])


async def test_methods_that_were_not_announced_are_unknown(start: Start) -> None:
    harness = start()
    agent = await harness.launch(harness.plan(mode=PermissionMode.YOLO))
    for method in ("fs/read_text_file", "fs/write_text_file", "terminal/create"):
        assert (await call(agent, method, path="/etc/passwd", content="", command="id"))["code"] == -32601


async def test_files_are_served_inside_of_the_directory_only(start: Start) -> None:
    harness = start(client_files=True)
    agent = await harness.launch(harness.plan(mode=PermissionMode.YOLO))
    inside, outside = harness.directory / "sub" / "a.txt", harness.directory.parent / "secret.txt"
    outside.write_text("secret")
    assert await call(agent, "fs/write_text_file", path=str(inside), content="one\ntwo\nthree\n") is None
    assert await call(agent, "fs/read_text_file", path=str(inside), line=2, limit=1) == {"content": "two\n"}
    (harness.directory / "link").symlink_to(outside)
    (harness.directory / "up").symlink_to(harness.directory.parent)
    for path in (outside, harness.directory / "link", harness.directory / "up" / "secret.txt", "a.txt", "\0"):
        assert (await call(agent, "fs/read_text_file", path=str(path)))["code"] == -32602
        assert (await call(agent, "fs/write_text_file", path=str(path), content="x"))["code"] == -32602
    assert outside.read_text() == "secret"
    assert (await call(agent, "fs/read_text_file", path=str(harness.directory / "no")))["code"] == -32002


async def test_a_file_is_written_when_a_person_allows_it(start: Start) -> None:
    harness = start(client_files=True)
    agent = await harness.launch()
    path = harness.directory / "a.txt"
    message = f"call fs/write_text_file {json.dumps({'path': str(path), 'content': 'text'})}"
    for count, outcome in enumerate((Outcome.DENIED, Outcome.APPROVED), 1):
        turn = await agent.send(message)
        approval = (await agent.wait_for_approvals(count))[-1]
        assert not path.exists()
        await agent.answer(approval, outcome)
        await agent.wait_for_end(turn)
    assert path.read_text() == "text"


async def test_a_read_only_session_writes_and_runs_nothing_for_the_agent(start: Start) -> None:
    harness = start(client_files=True, client_terminals=True)
    agent = await harness.launch(harness.plan(mode=PermissionMode.READ_ONLY))
    path = harness.directory / "a.txt"
    assert "code" in await call(agent, "fs/write_text_file", path=str(path), content="x")
    assert "code" in await call(agent, "terminal/create", command="touch", args=[str(path)])
    assert not path.exists()
    assert agent.outputs_of(ApprovalAsked) == []


async def test_a_terminal_runs_a_command_and_keeps_its_output(start: Start) -> None:
    harness = start(client_terminals=True)
    agent = await harness.launch(harness.plan(mode=PermissionMode.YOLO))
    made = await call(
        agent, "terminal/create", command="/bin/sh", args=["-c", "echo out; echo err >&2; exit 3"]
    )
    ended = await call(agent, "terminal/wait_for_exit", **made)
    assert ended == {"exitCode": 3, "signal": None}
    assert await call(agent, "terminal/output", **made) == {
        "output": "out\nerr\n", "truncated": False, "exitStatus": {"exitCode": 3, "signal": None},
    }  # fmt: skip
    assert await call(agent, "terminal/release", **made) == {}
    assert (await call(agent, "terminal/output", **made))["code"] == -32002
    line = await call(agent, "terminal/create", command="echo whole line", outputByteLimit=4)
    await call(agent, "terminal/wait_for_exit", **line)
    shown = await call(agent, "terminal/output", **line)
    assert (shown["output"], shown["truncated"]) == ("ine\n", True)
    assert (await call(agent, "terminal/create", command="ls", cwd="/etc"))["code"] == -32602


async def test_a_terminal_ends_with_its_agent(start: Start) -> None:
    harness = start(client_terminals=True)
    agent = await harness.launch(harness.plan(mode=PermissionMode.YOLO))
    await call(agent, "terminal/create", command="sleep", args=["60"])
    assert len(harness.leftover_processes()) >= 2
    await agent.launch.stop()
    assert harness.leftover_processes() == []


async def test_grok_hooks_deny_every_tool_but_readers_in_a_read_only_session(start: Start) -> None:
    harness = start(reading_tools=("read_file",))
    agent = await harness.launch(harness.plan(mode=PermissionMode.PLAN))
    assert (await call(agent, "_x.ai/hooks/run", toolName="run_terminal_command"))["decision"] == "deny"
    assert (await call(agent, "_x.ai/hooks/run", toolName="read_file"))["decision"] == "allow"
    await agent.launch.set_permission_mode(PermissionMode.DEFAULT)
    assert (await call(agent, "_x.ai/hooks/run", toolName="run_terminal_command"))["decision"] == "allow"
