"""What one can type to the demo agent, seen through its adapter."""

from __future__ import annotations

import base64
import hashlib
import os

import msgspec
import pytest

from farsteer.agents.base import ApprovalAsked, ApprovalWithdrawn, DeltaEmitted, Prompt
from farsteer.agents.conformance.stage import Scene, Stage
from farsteer.agents.demo import help_text
from farsteer.agents.demo.repertoire import COMMANDS
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


async def yolo(stage: Stage) -> Scene:
    return await stage.launch(stage.plan(mode=PermissionMode.YOLO))


def said(scene: Scene) -> str:
    return scene.events(AgentMessage)[-1].text


def statuses(scene: Scene) -> list[ToolStatus | None]:
    return [update.status for update in scene.events(ToolCallUpdate)]


async def test_free_text_gets_a_friendly_answer_that_streams(stage: Stage) -> None:
    scene = await stage.launch()
    await scene.turn("Good morning!")
    assert "Good morning!" in said(scene)
    assert "`help` lists everything" in said(scene)
    assert len(scene.of(DeltaEmitted)) > 5


async def test_the_help_names_every_command_and_so_does_the_launch(stage: Stage) -> None:
    scene = await stage.launch()
    await scene.turn("help")
    (offered,) = scene.events(CommandsUpdate)
    assert {command.name for command in offered.commands} == {command.usage for command in COMMANDS}
    for command in COMMANDS:
        assert command.usage in help_text()
        assert command.summary in help_text()
    assert said(scene) == help_text()


async def test_several_commands_stand_in_one_message(stage: Stage) -> None:
    scene = await stage.launch()
    await scene.turn("say one\nsay two\nwith a second line\n\nthink of three")
    assert [message.text for message in scene.events(AgentMessage)] == [
        "one", "two\nwith a second line", "I have thought about it.",
    ]  # fmt: skip
    assert [thought.text for thought in scene.events(AgentThought)] == ["of three"]


@pytest.mark.parametrize(
    ("told", "asked", "answer"),
    [
        ("The password is DOLPHIN-2288. Just reply OK.", "What password did I tell you?", "DOLPHIN-2288"),
        ("my favourite colour is blue", "what favourite colour have I mentioned?", "blue"),
        ("hello", "what password did I tell you?", "You have told me no password."),
        ("hello", "what did I say?", "You said “hello”."),
    ],
)  # fmt: skip
async def test_it_recalls_what_it_was_told(stage: Stage, told: str, asked: str, answer: str) -> None:
    scene = await stage.launch()
    await scene.turn(told)
    await scene.turn(asked)
    assert said(scene) == answer


async def test_it_replies_what_it_is_told_to_reply(stage: Stage) -> None:
    scene = await stage.launch()
    await scene.turn("The password is DOLPHIN-2288. Just reply OK.")
    assert said(scene) == "OK"


@pytest.mark.parametrize(
    ("typed", "answer"),
    [
        ("run", "`run` needs a command"),
        ("slow many", "'many' is no number"),
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
async def test_what_cannot_be_done_is_said_and_the_turn_ends(stage: Stage, typed: str, answer: str) -> None:
    scene = await yolo(stage)
    assert (await scene.turn(typed)).reason is TurnEndReason.END_TURN
    assert answer in said(scene)


async def test_a_command_streams_its_output_and_tells_its_end(stage: Stage) -> None:
    scene = await yolo(stage)
    await scene.turn("run echo out; echo err >&2; exit 3")
    streamed = [f.delta for f in scene.of(DeltaEmitted) if f.delta.kind is DeltaKind.TOOL_OUTPUT]
    assert "".join(delta.text for delta in streamed) == "out\nerr\n"
    assert statuses(scene) == [ToolStatus.IN_PROGRESS, ToolStatus.FAILED]
    assert "exit code 3" in scene.words()


async def test_an_interrupt_kills_the_running_command_and_its_children(stage: Stage) -> None:
    scene = await yolo(stage)
    turn_id = await scene.begin("run sleep 300 & echo $!; sleep 300")
    await scene.until(lambda: any(f.delta.kind is DeltaKind.TOOL_OUTPUT for f in scene.of(DeltaEmitted)))
    child = int(next(f.delta.text for f in scene.of(DeltaEmitted)))
    await scene.launch.interrupt()
    assert (await scene.end(turn_id)).reason is TurnEndReason.CANCELLED
    assert statuses(scene)[-1] is ToolStatus.FAILED
    await gone(child)
    await scene.turn("run echo again")
    assert "again" in scene.words()


async def test_the_end_of_its_input_ends_the_agent_and_its_command(stage: Stage) -> None:
    scene = await yolo(stage)
    await scene.begin("run echo $$; sleep 300")
    await scene.until(lambda: bool(scene.of(DeltaEmitted)))
    command = int(scene.of(DeltaEmitted)[0].delta.text)
    scene.launch._process._input.close()  # pyright: ignore[reportAttributeAccessIssue]
    assert (await scene.exited()).exit_code == 0
    await gone(command)


async def test_a_write_shows_what_it_would_change_before_it_does(stage: Stage) -> None:
    path = stage.directory / "notes.txt"
    path.write_text("old\n")
    scene = await stage.launch()
    turn_id = await scene.begin("write notes.txt new")
    (approval,) = await scene.asked()
    diff = DiffBlock(path="notes.txt", old_text="old\n", new_text="new\n")
    (call,) = scene.events(ToolCall)
    assert call.content == (diff,)
    assert [location.path for location in call.locations] == [os.path.realpath(path)]
    assert approval.tool_call_id == call.tool_call_id
    assert approval.arguments == {
        "path": "notes.txt", "diff": {"path": "notes.txt", "old": "old\n", "new": "new\n"},
    }  # fmt: skip
    await scene.answer(approval, Outcome.APPROVED)
    await scene.end(turn_id)
    assert path.read_text() == "new\n"


async def test_a_file_that_changed_since_it_was_shown_is_left_alone(stage: Stage) -> None:
    path = stage.directory / "notes.txt"
    scene = await stage.launch()
    turn_id = await scene.begin("write notes.txt new")
    (approval,) = await scene.asked()
    path.write_text("somebody else")
    await scene.answer(approval, Outcome.APPROVED)
    await scene.end(turn_id)
    assert path.read_text() == "somebody else"
    assert "has changed since" in scene.words()


async def test_a_link_out_of_the_directory_is_not_followed(stage: Stage) -> None:
    outside = stage.directory.parent / "outside"
    outside.mkdir()
    (stage.directory / "way").symlink_to(outside)
    scene = await yolo(stage)
    await scene.turn("write way/x.txt hello")
    assert "is outside of" in said(scene)
    assert list(outside.iterdir()) == []


async def test_files_are_written_edited_read_and_deleted(stage: Stage) -> None:
    scene = await yolo(stage)
    await scene.turn("write deep/a.txt hello world\nedit deep/a.txt world -> there\nread deep/a.txt")
    assert (stage.directory / "deep/a.txt").read_text() == "hello there\n"
    assert "hello there" in scene.words()
    await scene.turn("delete deep/a.txt")
    assert not (stage.directory / "deep/a.txt").exists()


async def test_a_permission_for_the_session_is_remembered_by_the_session(stage: Stage) -> None:
    scene = await stage.launch()
    turn_id = await scene.begin("run echo one")
    (approval,) = await scene.asked()
    await scene.answer(approval, Outcome.APPROVED_FOR_SESSION)
    await scene.end(turn_id)
    await scene.turn("run echo two")
    again = await stage.again(scene)
    await again.turn("run echo three")
    assert "three" in again.words()
    assert again.of(ApprovalAsked) == []
    await again.launch.set_permission_mode(PermissionMode.READ_ONLY)
    await again.turn("run touch four")
    assert "not allowed in permission mode read-only" in again.words()


async def test_an_answer_may_allow_further_tools(stage: Stage) -> None:
    scene = await stage.launch()
    turn_id = await scene.begin("run echo one")
    (approval,) = await scene.asked()
    answer = Answer(outcome=Outcome.APPROVED, option_id="allow", allow_tools=("write",))
    await scene.launch.answer(approval, answer)
    await scene.end(turn_id)
    await scene.turn("write a.txt hello")
    assert (stage.directory / "a.txt").exists()
    turn_id = await scene.begin("run echo two")
    await scene.asked(2)
    await scene.launch.interrupt()
    await scene.end(turn_id)


async def test_an_interrupt_withdraws_what_is_asked(stage: Stage) -> None:
    scene = await stage.launch()
    turn_id = await scene.begin("several 3")
    asked = await scene.asked(3)
    await scene.launch.interrupt()
    await scene.end(turn_id)
    assert {withdrawn.approval_id for withdrawn in scene.of(ApprovalWithdrawn)} == {
        approval.id for approval in asked
    }


async def test_questions_of_every_kind_are_answered(stage: Stage) -> None:
    scene = await stage.launch()
    turn_id = await scene.begin("ask all")
    (approval,) = await scene.asked()
    answers = {"colour": ["green"], "toppings": ["olives", "basil"], "name": ["Bob"]}
    await scene.answer(approval, Outcome.APPROVED, answers)
    await scene.end(turn_id)
    assert said(scene) == "You chose colour: green; toppings: olives, basil; name: Bob."


async def test_a_question_may_stay_unanswered(stage: Stage) -> None:
    scene = await stage.launch()
    turn_id = await scene.begin("ask text")
    (approval,) = await scene.asked()
    await scene.answer(approval, Outcome.DENIED)
    await scene.end(turn_id)
    assert said(scene) == "Then I do not know."


async def test_an_approved_plan_leaves_plan_mode_and_is_followed(stage: Stage) -> None:
    scene = await stage.launch(stage.plan(mode=PermissionMode.PLAN))
    turn_id = await scene.begin("plan")
    (approval,) = await scene.asked()
    assert approval.kind is ApprovalKind.PLAN
    await scene.launch.answer(
        approval, Answer(outcome=Outcome.APPROVED, option_id="approve", mode=PermissionMode.ACCEPT_EDITS)
    )
    await scene.end(turn_id)
    assert [update.permission_mode for update in scene.events(ModeUpdate)] == [PermissionMode.ACCEPT_EDITS]
    assert {entry.status for entry in scene.events(Plan)[-1].entries} == {"completed"}
    await scene.turn("write a.txt hello")
    assert (stage.directory / "a.txt").exists()


async def test_one_of_several_plans_is_chosen(stage: Stage) -> None:
    scene = await stage.launch(stage.plan(mode=PermissionMode.PLAN))
    turn_id = await scene.begin("plan many")
    (approval,) = await scene.asked()
    (which,) = approval.questions
    assert len(which.choices) == 2
    await scene.answer(approval, Outcome.APPROVED, {which.id: [which.choices[1]]})
    await scene.end(turn_id)
    assert said(scene) == f"It was {which.choices[1]}."


async def test_a_refused_plan_changes_nothing(stage: Stage) -> None:
    scene = await stage.launch(stage.plan(mode=PermissionMode.PLAN))
    turn_id = await scene.begin("plan")
    (approval,) = await scene.asked()
    await scene.launch.answer(approval, Answer(outcome=Outcome.DENIED, message="too risky"))
    await scene.end(turn_id)
    assert said(scene) == "I drop the plan: too risky"
    assert scene.events(ModeUpdate) == []
    await scene.turn("write a.txt hello")
    assert "not allowed in permission mode plan" in scene.words()


async def test_title_todo_and_usage_are_told(stage: Stage) -> None:
    scene = await stage.launch()
    await scene.turn("title A walk\ntodo")
    assert [update.title for update in scene.events(TitleUpdate)] == ["A walk"]
    assert [[entry.status for entry in plan.entries] for plan in scene.events(Plan)] == [
        ["in_progress", "pending", "pending"],
        ["completed", "in_progress", "pending"],
        ["completed", "completed", "in_progress"],
        ["completed", "completed", "completed"],
    ]
    (usage,) = scene.events(UsageUpdate)
    assert usage.output_tokens == len(" ".join(m.text for m in scene.events(AgentMessage)).split())
    assert usage.context_size == 200_000


async def test_model_effort_and_mode_change_while_it_runs(stage: Stage) -> None:
    scene = await stage.launch()
    await scene.launch.set_model("demo-1-mini")
    await scene.launch.set_effort(ReasoningEffort.XHIGH)
    await scene.launch.set_permission_mode(PermissionMode.SAFE_YOLO)
    await scene.turn("model")
    assert said(scene) == "model demo-1-mini, effort xhigh, permission mode safe-yolo"
    assert scene.events(ModeUpdate) == []


async def test_what_is_said_into_a_running_turn_is_done_in_it(stage: Stage) -> None:
    scene = await stage.launch()
    turn_id = await scene.working("work 20 0.01")
    await scene.launch.steer(Prompt(turn_id=turn_id, text="say I heard you"))
    await scene.end(turn_id)
    texts = [message.text for message in scene.events(AgentMessage)]
    assert "I heard you" in texts
    assert "Step 20 of 20 is done." in texts
    with pytest.raises(Conflict):
        await scene.launch.steer(Prompt(turn_id=turn_id, text="say too late"))


async def test_attachments_arrive_whole(stage: Stage) -> None:
    scene = await stage.launch()
    data = os.urandom(3_000_000)
    turn_id = new_id()
    attachment = Attachment(
        name="a.png", mime_type="image/png", data=base64.b64encode(data).decode(), size=len(data)
    )
    await scene.launch.send(Prompt(turn_id=turn_id, text="say seen", attachments=(attachment,)))
    scene.sent.append(turn_id)
    await scene.end(turn_id)
    digest = hashlib.sha256(data).hexdigest()[:12]
    assert scene.events(AgentMessage)[0].text == f"I got a.png (image/png, 3000000 bytes, sha256 {digest})."


async def test_a_second_message_in_a_running_turn_is_refused(stage: Stage) -> None:
    scene = await stage.launch()
    turn_id = await scene.working("work 1000 0.05")
    with pytest.raises(Conflict):
        await scene.launch.send(Prompt(turn_id=new_id(), text="say no"))
    await scene.launch.interrupt()
    await scene.end(turn_id)


async def test_an_interrupted_message_is_kept_as_far_as_it_came(stage: Stage) -> None:
    scene = await stage.launch()
    turn_id = await scene.working("slow 1000")
    await scene.launch.interrupt()
    await scene.end(turn_id)
    (message,) = scene.events(AgentMessage)
    assert message.partial
    assert message.text.startswith("word1 ")
    await scene.turn("history")
    assert "word1" in said(scene)


async def test_ids_of_two_launches_never_collide_though_launches_are_counted_anew(stage: Stage) -> None:
    scene = await stage.launch()
    await scene.turn("say one\nflood 3")
    fork = msgspec.structs.replace(stage.plan(fork_of=scene.launch.native_id), generation=1)
    again = await stage.launch(fork)
    await again.turn("say two\nflood 3")
    ids = [message.message_id for each in (scene, again) for message in each.events(AgentMessage)]
    assert len(ids) == len(set(ids)) == 8


async def test_messages_keep_the_ids_we_gave_them_also_those_into_a_running_turn(stage: Stage) -> None:
    scene = await stage.launch()
    turn_id = await scene.working("work 1000 0.01")
    steered = new_id()
    await scene.launch.steer(Prompt(turn_id=turn_id, text="say I heard you", message_id=steered))
    await scene.until(lambda: "I heard you" in scene.words())
    await scene.launch.interrupt()
    await scene.end(turn_id)
    nameless = new_id()
    await scene.launch.send(Prompt(turn_id=nameless, text="say bye"))
    scene.sent.append(nameless)
    await scene.end(nameless)
    _, events = await stage.adapter.history(scene.plan.session_id, stage.state_dir)
    asked = [event for event in events if isinstance(event, UserMessage)]
    assert [event.anchor for event in asked[:2]] == [scene.messages[0], steered]
    assert asked[2].anchor not in (None, ""), "one that we gave no id has one of the agent's"


async def test_thoughts_and_messages_carry_the_anchors_that_are_stored(stage: Stage) -> None:
    scene = await stage.launch()
    await scene.turn("think hard\nsay done")
    live = [*scene.events(AgentThought), *scene.events(AgentMessage)]
    _, events = await stage.adapter.history(scene.plan.session_id, stage.state_dir)
    assert events[1:] == live
    assert all(event.anchor for event in live)


async def test_files_go_back_to_a_message_that_came_into_a_running_turn(stage: Stage) -> None:
    scene = await yolo(stage)
    turn_id = await scene.begin("write a.txt one\nwork 1000 0.01")
    await scene.until(lambda: "Step 1" in scene.words())
    steered = new_id()
    await scene.launch.steer(Prompt(turn_id=turn_id, text="write a.txt two", message_id=steered))
    await scene.until(lambda: (stage.directory / "a.txt").read_text() == "two\n")
    with pytest.raises(Conflict, match="a turn is running"):
        await scene.launch.restore_files(steered, None)
    await scene.launch.interrupt()
    await scene.end(turn_id)
    found = await scene.launch.restore_files(steered, None)
    assert found == FilesRestored(status=FileRestore.FULL, restored=("a.txt",))
    assert (stage.directory / "a.txt").read_text() == "one\n"
    await scene.launch.restore_files(scene.messages[0], None)
    assert not (stage.directory / "a.txt").exists()


async def test_files_that_cannot_go_back_are_named(stage: Stage) -> None:
    scene = await yolo(stage)
    (stage.directory / "old.txt").write_text("old")
    await scene.turn("write old.txt new\nwrite way.txt new\ndelete way.txt\nrun ln -s old.txt way.txt")
    found = await scene.launch.restore_files(scene.messages[0], None)
    assert (found.status, found.restored, found.skipped) == (FileRestore.PARTIAL, ("old.txt",), ("way.txt",))
    assert found.reason == "way.txt is a link"
    await scene.turn("write old.txt new\nlose copies")
    found = await scene.launch.restore_files(scene.messages[1], None)
    assert (found.status, found.skipped) == (FileRestore.FAILED, ("old.txt",))
    assert (stage.directory / "old.txt").read_text() == "new\n"
