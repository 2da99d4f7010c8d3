"""The commands of the demo agent, used through its adapter."""

from __future__ import annotations

import base64
import hashlib
import os

import msgspec
import pytest

from farsteer.agents.base import ApprovalAsked, ApprovalWithdrawn, DeltaEmitted, Prompt
from farsteer.agents.conformance.harness import Harness, RecordedLaunch
from farsteer.agents.demo import help_text
from farsteer.agents.demo.commands import COMMANDS
from farsteer.core.approvals import Answer, ApprovalKind, Outcome
from farsteer.core.errors import Conflict
from farsteer.core.events import (
    AgentMessage,
    AgentThought,
    CommandsUpdate,
    DeltaKind,
    DiffBlock,
    FileRestore,
    FilesRestored,
    ModeUpdate,
    Plan,
    TextBlock,
    TitleUpdate,
    ToolCall,
    ToolCallUpdate,
    ToolStatus,
    TurnEndReason,
    UsageUpdate,
    UserMessage,
)
from farsteer.core.ids import new_id
from farsteer.core.modes import PermissionMode, ReasoningEffort
from farsteer.core.queue import Attachment
from tests.agents.conftest import gone

pytestmark = pytest.mark.slow


async def launch_yolo(harness: Harness) -> RecordedLaunch:
    return await harness.launch(harness.plan(mode=PermissionMode.YOLO))


def last_message(agent: RecordedLaunch) -> str:
    return agent.events_of(AgentMessage)[-1].text


def statuses(agent: RecordedLaunch) -> list[ToolStatus | None]:
    return [update.status for update in agent.events_of(ToolCallUpdate)]


async def test_free_text_gets_a_friendly_answer_that_streams(harness: Harness) -> None:
    agent = await harness.launch()
    await agent.run_turn("Good morning!")
    assert "Good morning!" in last_message(agent)
    assert "`help` lists everything" in last_message(agent)
    assert len(agent.outputs_of(DeltaEmitted)) > 5


async def test_the_help_names_every_command_and_so_does_the_launch(harness: Harness) -> None:
    agent = await harness.launch()
    await agent.run_turn("help")
    (offered,) = agent.events_of(CommandsUpdate)
    assert {command.name for command in offered.commands} == {command.usage for command in COMMANDS}
    for command in COMMANDS:
        assert command.usage in help_text()
        assert command.summary in help_text()
    assert last_message(agent) == help_text()


async def test_a_message_may_contain_several_commands(harness: Harness) -> None:
    agent = await harness.launch()
    await agent.run_turn("say one\nsay two\nwith a second line\n\nthink of three")
    assert [message.text for message in agent.events_of(AgentMessage)] == [
        "one", "two\nwith a second line", "I have thought about it.",
    ]  # fmt: skip
    assert [thought.text for thought in agent.events_of(AgentThought)] == ["of three"]


@pytest.mark.parametrize(
    ("message", "question", "answer"),
    [
        ("The password is DOLPHIN-2288. Just reply OK.", "What password did I tell you?", "DOLPHIN-2288"),
        ("my favourite colour is blue", "what favourite colour have I mentioned?", "blue"),
        ("hello", "what password did I tell you?", "You have told me no password."),
        ("hello", "what did I say?", "You said “hello”."),
    ],
)  # fmt: skip
async def test_it_recalls_earlier_messages(
    harness: Harness, message: str, question: str, answer: str
) -> None:
    agent = await harness.launch()
    await agent.run_turn(message)
    await agent.run_turn(question)
    assert last_message(agent) == answer


async def test_it_replies_with_the_requested_text(harness: Harness) -> None:
    agent = await harness.launch()
    await agent.run_turn("The password is DOLPHIN-2288. Just reply OK.")
    assert last_message(agent) == "OK"


@pytest.mark.parametrize(
    ("typed", "answer"),
    [
        ("run", "`run` needs a command"),
        ("slow many", "'many' is not a number"),
        ("slow nan", "a number from 1 to 10000"),
        ("several 51", "a number from 1 to 50"),
        ("edit a.txt without an arrow", "`edit` needs a path"),
        ("edit missing.txt a -> b", "there is no file missing.txt"),
        ("write ../outside.txt x", "is outside of"),
        ("read /etc/passwd", "is outside of"),
        ("delete .", "is outside of"),
        ("title", "`title` needs a text"),
    ],
)
async def test_a_command_that_fails_is_explained_and_the_turn_ends(
    harness: Harness, typed: str, answer: str
) -> None:
    agent = await launch_yolo(harness)
    assert (await agent.run_turn(typed)).reason is TurnEndReason.END_TURN
    assert answer in last_message(agent)


async def test_a_shell_command_streams_its_output_and_reports_its_exit_code(harness: Harness) -> None:
    agent = await launch_yolo(harness)
    await agent.run_turn("run echo out; echo err >&2; exit 3")
    streamed = [f.delta for f in agent.outputs_of(DeltaEmitted) if f.delta.kind is DeltaKind.TOOL_OUTPUT]
    assert "".join(delta.text for delta in streamed) == "out\nerr\n"
    assert statuses(agent) == [ToolStatus.IN_PROGRESS, ToolStatus.FAILED]
    assert "Error: Command failed (exit code: 3)\n" in agent.text()


async def test_an_interrupt_kills_the_running_command_and_its_children(harness: Harness) -> None:
    agent = await launch_yolo(harness)
    turn_id = await agent.send("run sleep 300 & echo $!; sleep 300")
    await agent.wait_until(
        lambda: any(f.delta.kind is DeltaKind.TOOL_OUTPUT for f in agent.outputs_of(DeltaEmitted))
    )
    child = int(next(f.delta.text for f in agent.outputs_of(DeltaEmitted)))
    await agent.launch.interrupt()
    assert (await agent.wait_for_end(turn_id)).reason is TurnEndReason.CANCELLED
    last = agent.events_of(ToolCallUpdate)[-1]
    assert (last.status, last.partial) == (ToolStatus.FAILED, True)
    assert [block.text for block in last.content if isinstance(block, TextBlock)] == [
        f"{child}\n",
        "interrupted",
    ]
    await gone(child)
    await agent.run_turn("run echo again")
    assert "again" in agent.text()


async def test_the_end_of_its_input_ends_the_agent_and_its_command(harness: Harness) -> None:
    agent = await launch_yolo(harness)
    await agent.send("run echo $$; sleep 300")
    await agent.wait_until(lambda: bool(agent.outputs_of(DeltaEmitted)))
    command = int(agent.outputs_of(DeltaEmitted)[0].delta.text)
    agent.launch._process._input.close()  # pyright: ignore[reportAttributeAccessIssue]
    assert (await agent.wait_for_exit()).exit_code == 0
    await gone(command)


async def test_a_write_shows_what_it_would_change_before_it_does(harness: Harness) -> None:
    path = harness.directory / "notes.txt"
    path.write_text("old\n")
    agent = await harness.launch()
    turn_id = await agent.send("write notes.txt new")
    (approval,) = await agent.wait_for_approvals()
    diff = DiffBlock(path="notes.txt", old_text="old\n", new_text="new\n")
    (call,) = agent.events_of(ToolCall)
    assert call.content == (diff,)
    assert [location.path for location in call.locations] == [os.path.realpath(path)]
    assert approval.tool_call_id == call.tool_call_id
    assert approval.arguments == {
        "path": "notes.txt", "diff": {"path": "notes.txt", "old": "old\n", "new": "new\n"},
    }  # fmt: skip
    await agent.answer(approval, Outcome.APPROVED)
    await agent.wait_for_end(turn_id)
    assert path.read_text() == "new\n"


async def test_a_file_that_changed_since_it_was_shown_is_not_written(harness: Harness) -> None:
    path = harness.directory / "notes.txt"
    agent = await harness.launch()
    turn_id = await agent.send("write notes.txt new")
    (approval,) = await agent.wait_for_approvals()
    path.write_text("somebody else")
    await agent.answer(approval, Outcome.APPROVED)
    await agent.wait_for_end(turn_id)
    assert path.read_text() == "somebody else"
    assert "has changed since" in agent.text()


async def test_a_link_out_of_the_directory_is_not_followed(harness: Harness) -> None:
    outside = harness.directory.parent / "outside"
    outside.mkdir()
    (harness.directory / "way").symlink_to(outside)
    agent = await launch_yolo(harness)
    await agent.run_turn("write way/x.txt hello")
    assert "is outside of" in last_message(agent)
    assert list(outside.iterdir()) == []


async def test_files_are_written_edited_read_and_deleted(harness: Harness) -> None:
    agent = await launch_yolo(harness)
    await agent.run_turn("write deep/a.txt hello world\nedit deep/a.txt world -> there\nread deep/a.txt")
    assert (harness.directory / "deep/a.txt").read_text() == "hello there\n"
    assert "hello there" in agent.text()
    await agent.run_turn("delete deep/a.txt")
    assert not (harness.directory / "deep/a.txt").exists()


async def test_a_permission_for_the_session_is_remembered_by_the_session(harness: Harness) -> None:
    agent = await harness.launch()
    turn_id = await agent.send("run echo one")
    (approval,) = await agent.wait_for_approvals()
    await agent.answer(approval, Outcome.APPROVED_FOR_SESSION)
    await agent.wait_for_end(turn_id)
    await agent.run_turn("run echo two")
    again = await harness.relaunch(agent)
    await again.run_turn("run echo three")
    assert "three" in again.text()
    assert again.outputs_of(ApprovalAsked) == []
    await again.launch.set_permission_mode(PermissionMode.READ_ONLY)
    await again.run_turn("run touch four")
    assert "not allowed in permission mode read-only" in again.text()


async def test_an_answer_may_allow_further_tools(harness: Harness) -> None:
    agent = await harness.launch()
    turn_id = await agent.send("run echo one")
    (approval,) = await agent.wait_for_approvals()
    answer = Answer(outcome=Outcome.APPROVED, option_id="allow", allow_tools=("write",))
    await agent.launch.answer(approval, answer)
    await agent.wait_for_end(turn_id)
    await agent.run_turn("write a.txt hello")
    assert (harness.directory / "a.txt").exists()
    turn_id = await agent.send("run echo two")
    await agent.wait_for_approvals(2)
    await agent.launch.interrupt()
    await agent.wait_for_end(turn_id)


async def test_an_interrupt_withdraws_open_approvals(harness: Harness) -> None:
    agent = await harness.launch()
    turn_id = await agent.send("several 3")
    asked = await agent.wait_for_approvals(3)
    await agent.launch.interrupt()
    await agent.wait_for_end(turn_id)
    assert {withdrawn.approval_id for withdrawn in agent.outputs_of(ApprovalWithdrawn)} == {
        approval.id for approval in asked
    }


async def test_questions_of_every_kind_are_answered(harness: Harness) -> None:
    agent = await harness.launch()
    turn_id = await agent.send("ask all")
    (approval,) = await agent.wait_for_approvals()
    answers = {"colour": ["green"], "toppings": ["olives", "basil"], "name": ["Bob"]}
    await agent.answer(approval, Outcome.APPROVED, answers)
    await agent.wait_for_end(turn_id)
    assert last_message(agent) == "You chose colour: green; toppings: olives, basil; name: Bob."


async def test_a_question_may_stay_unanswered(harness: Harness) -> None:
    agent = await harness.launch()
    turn_id = await agent.send("ask text")
    (approval,) = await agent.wait_for_approvals()
    await agent.answer(approval, Outcome.DENIED)
    await agent.wait_for_end(turn_id)
    assert last_message(agent) == "Then I do not know."


async def test_an_approved_plan_leaves_plan_mode_and_is_followed(harness: Harness) -> None:
    agent = await harness.launch(harness.plan(mode=PermissionMode.PLAN))
    turn_id = await agent.send("plan")
    (approval,) = await agent.wait_for_approvals()
    assert approval.kind is ApprovalKind.PLAN
    await agent.launch.answer(
        approval, Answer(outcome=Outcome.APPROVED, option_id="approve", mode=PermissionMode.ACCEPT_EDITS)
    )
    await agent.wait_for_end(turn_id)
    assert [update.permission_mode for update in agent.events_of(ModeUpdate)] == [PermissionMode.ACCEPT_EDITS]
    assert {entry.status for entry in agent.events_of(Plan)[-1].entries} == {"completed"}
    await agent.run_turn("write a.txt hello")
    assert (harness.directory / "a.txt").exists()


async def test_one_of_several_plans_is_chosen(harness: Harness) -> None:
    agent = await harness.launch(harness.plan(mode=PermissionMode.PLAN))
    turn_id = await agent.send("plan many")
    (approval,) = await agent.wait_for_approvals()
    (which,) = approval.questions
    assert len(which.choices) == 2
    await agent.answer(approval, Outcome.APPROVED, {which.id: [which.choices[1]]})
    await agent.wait_for_end(turn_id)
    assert last_message(agent) == f"It was {which.choices[1]}."


async def test_a_refused_plan_changes_nothing(harness: Harness) -> None:
    agent = await harness.launch(harness.plan(mode=PermissionMode.PLAN))
    turn_id = await agent.send("plan")
    (approval,) = await agent.wait_for_approvals()
    await agent.launch.answer(approval, Answer(outcome=Outcome.DENIED, message="too risky"))
    await agent.wait_for_end(turn_id)
    assert last_message(agent) == "I drop the plan: too risky"
    assert agent.events_of(ModeUpdate) == []
    await agent.run_turn("write a.txt hello")
    assert "not allowed in permission mode plan" in agent.text()


async def test_title_todo_and_usage_are_reported(harness: Harness) -> None:
    agent = await harness.launch()
    await agent.run_turn("title A walk\ntodo")
    assert [update.title for update in agent.events_of(TitleUpdate)] == ["A walk"]
    assert [[entry.status for entry in plan.entries] for plan in agent.events_of(Plan)] == [
        ["in_progress", "pending", "pending"],
        ["completed", "in_progress", "pending"],
        ["completed", "completed", "in_progress"],
        ["completed", "completed", "completed"],
    ]
    (usage,) = agent.events_of(UsageUpdate)
    assert usage.output_tokens == len(" ".join(m.text for m in agent.events_of(AgentMessage)).split())
    assert usage.context_size == 200_000


async def test_model_effort_and_mode_change_while_it_runs(harness: Harness) -> None:
    agent = await harness.launch()
    await agent.launch.set_model("demo-1-mini")
    await agent.launch.set_effort(ReasoningEffort.XHIGH)
    await agent.launch.set_permission_mode(PermissionMode.SAFE_YOLO)
    await agent.run_turn("model")
    assert last_message(agent) == "model demo-1-mini, effort xhigh, permission mode safe-yolo"
    assert agent.events_of(ModeUpdate) == []


async def test_a_message_into_a_running_turn_is_run_in_it(harness: Harness) -> None:
    agent = await harness.launch()
    turn_id = await agent.send_and_wait("work 20 0.01")
    await agent.launch.steer(Prompt(turn_id=turn_id, text="say I heard you"))
    await agent.wait_for_end(turn_id)
    texts = [message.text for message in agent.events_of(AgentMessage)]
    assert "I heard you" in texts
    assert "Step 20 of 20 is done." in texts
    with pytest.raises(Conflict):
        await agent.launch.steer(Prompt(turn_id=turn_id, text="say too late"))


async def test_attachments_arrive_whole(harness: Harness) -> None:
    agent = await harness.launch()
    data = os.urandom(3_000_000)
    turn_id = new_id()
    attachment = Attachment(
        name="a.png", mime_type="image/png", data=base64.b64encode(data).decode(), size=len(data)
    )
    await agent.launch.send(Prompt(turn_id=turn_id, text="say seen", attachments=(attachment,)))
    agent.turn_ids.append(turn_id)
    await agent.wait_for_end(turn_id)
    digest = hashlib.sha256(data).hexdigest()[:12]
    assert (
        agent.events_of(AgentMessage)[0].text == f"I got a.png (image/png, 3000000 bytes, sha256 {digest})."
    )


async def test_a_second_message_in_a_running_turn_is_refused(harness: Harness) -> None:
    agent = await harness.launch()
    turn_id = await agent.send_and_wait("work 1000 0.05")
    with pytest.raises(Conflict):
        await agent.launch.send(Prompt(turn_id=new_id(), text="say no"))
    await agent.launch.interrupt()
    await agent.wait_for_end(turn_id)


async def test_the_streamed_part_of_an_interrupted_message_is_kept(harness: Harness) -> None:
    agent = await harness.launch()
    turn_id = await agent.send_and_wait("slow 1000")
    await agent.launch.interrupt()
    await agent.wait_for_end(turn_id)
    (message,) = agent.events_of(AgentMessage)
    assert message.partial
    assert message.text.startswith("word1 ")
    await agent.run_turn("history")
    assert "word1" in last_message(agent)


async def test_ids_of_a_fork_never_collide_with_those_of_its_source(harness: Harness) -> None:
    agent = await harness.launch()
    await agent.run_turn("say one\nflood 3")
    fork = msgspec.structs.replace(harness.plan(fork_of=agent.launch.native_id), generation=1)
    again = await harness.launch(fork)
    await again.run_turn("say two\nflood 3")
    ids = [message.message_id for each in (agent, again) for message in each.events_of(AgentMessage)]
    assert len(ids) == len(set(ids)) == 8


async def test_messages_keep_the_ids_of_the_client_also_in_a_running_turn(harness: Harness) -> None:
    agent = await harness.launch()
    turn_id = await agent.send_and_wait("work 1000 0.01")
    steered = new_id()
    await agent.launch.steer(Prompt(turn_id=turn_id, text="say I heard you", message_id=steered))
    await agent.wait_until(lambda: "I heard you" in agent.text())
    await agent.launch.interrupt()
    await agent.wait_for_end(turn_id)
    without_id = new_id()
    await agent.launch.send(Prompt(turn_id=without_id, text="say bye"))
    agent.turn_ids.append(without_id)
    await agent.wait_for_end(without_id)
    _, events = await harness.adapter.read_history(agent.plan.session_id, harness.state_dir)
    asked = [event for event in events if isinstance(event, UserMessage)]
    assert [event.anchor for event in asked[:2]] == [agent.message_ids[0], steered]
    assert asked[2].anchor not in (None, ""), "a message without an id gets one from the agent"


async def test_thoughts_and_messages_carry_the_anchors_that_are_stored(harness: Harness) -> None:
    agent = await harness.launch()
    await agent.run_turn("think hard\nsay done")
    live = [*agent.events_of(AgentThought), *agent.events_of(AgentMessage)]
    _, events = await harness.adapter.read_history(agent.plan.session_id, harness.state_dir)
    assert events[1:] == live
    assert all(event.anchor for event in live)


async def test_files_are_restored_to_a_message_into_a_running_turn(harness: Harness) -> None:
    agent = await launch_yolo(harness)
    turn_id = await agent.send("write a.txt one\nwork 1000 0.01")
    await agent.wait_until(lambda: "Step 1" in agent.text())
    steered = new_id()
    await agent.launch.steer(Prompt(turn_id=turn_id, text="write a.txt two", message_id=steered))
    await agent.wait_until(lambda: (harness.directory / "a.txt").read_text() == "two\n")
    with pytest.raises(Conflict, match="a turn is running"):
        await agent.launch.restore_files(steered, None)
    await agent.launch.interrupt()
    await agent.wait_for_end(turn_id)
    found = await agent.launch.restore_files(steered, None)
    assert found == FilesRestored(status=FileRestore.FULL, restored=("a.txt",))
    assert (harness.directory / "a.txt").read_text() == "one\n"
    await agent.launch.restore_files(agent.message_ids[0], None)
    assert not (harness.directory / "a.txt").exists()


async def test_files_that_cannot_be_restored_are_reported(harness: Harness) -> None:
    agent = await launch_yolo(harness)
    (harness.directory / "old.txt").write_text("old")
    await agent.run_turn("write old.txt new\nwrite way.txt new\ndelete way.txt\nrun ln -s old.txt way.txt")
    found = await agent.launch.restore_files(agent.message_ids[0], None)
    assert (found.status, found.restored, found.skipped) == (FileRestore.PARTIAL, ("old.txt",), ("way.txt",))
    assert found.reason == "way.txt is a link"
    await agent.run_turn("write old.txt new\nlose copies")
    found = await agent.launch.restore_files(agent.message_ids[1], None)
    assert (found.status, found.skipped) == (FileRestore.FAILED, ("old.txt",))
    assert (harness.directory / "old.txt").read_text() == "new\n"
