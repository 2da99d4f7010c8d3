"""A transcript that is followed while Claude Code writes it: its turns, and each record exactly once."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from farsteer.agents.base import EventEmitted, Followed, Output, Registered, TurnBegun, TurnEnded
from farsteer.agents.claude.follower import Follower, events_after, is_same_config
from farsteer.agents.turns import TurnOutput
from farsteer.core.events import (
    AgentMessage,
    Compacted,
    Notice,
    SessionEvent,
    ToolCall,
    ToolCallUpdate,
    ToolStatus,
    TurnEndReason,
    UsageUpdate,
    UserMessage,
)
from farsteer.core.ids import new_id
from tests.agents.claude.test_transcripts import DIRECTORY, assistant, user

NATIVE = new_id()
TURN_END = {"type": "system", "subtype": "turn_duration", "uuid": "end", "durationMs": 5}
STOPPED = {"type": "system", "subtype": "stop_hook_summary", "uuid": "stop"}


def call(uuid: str, tool_id: str, **given: Any) -> dict[str, Any]:
    return assistant(uuid, None, {"type": "tool_use", "id": tool_id, "name": "Bash", "input": given})


def result(uuid: str, tool_id: str, text: str = "ok", **more: Any) -> dict[str, Any]:
    return user(uuid, None, [{"type": "tool_result", "tool_use_id": tool_id, "content": text}], **more)


def queued(uuid: str, prompt: Any, mode: str = "prompt") -> dict[str, Any]:
    attachment = {"type": "queued_command", "prompt": prompt, "commandMode": mode}
    return {"type": "attachment", "uuid": uuid, "attachment": attachment}


class Transcript:
    """A transcript that grows, and its follower."""

    def __init__(self, config: Path) -> None:
        self.config = config
        self.output = TurnOutput()
        self.follower = Follower(self.output, config, NATIVE, DIRECTORY)

    def path(self, native_id: str = NATIVE) -> Path:
        folder = self.config / "projects" / "-home-ada-project"
        folder.mkdir(parents=True, exist_ok=True)
        return folder / f"{native_id}.jsonl"

    def write(self, data: bytes, native_id: str = NATIVE) -> None:
        with self.path(native_id).open("ab") as file:
            file.write(data)

    def add(self, *records: dict[str, Any], native_id: str = NATIVE) -> None:
        self.write(b"".join(json.dumps(one).encode() + b"\n" for one in records), native_id)

    async def read(self, *records: dict[str, Any]) -> list[Output]:
        """Add records and return what becomes of them."""
        self.add(*records)
        while await self.follower.read():
            pass
        return self.output.drain()

    def after(self, record: str) -> list[SessionEvent]:
        return events_after(self.config, NATIVE, record, DIRECTORY)


@pytest.fixture
def transcript(tmp_path: Path) -> Transcript:
    return Transcript(tmp_path)


def events(outputs: list[Output], kind: type[Any] = object) -> list[Any]:
    found = [one.event for one in outputs if isinstance(one, EventEmitted)]
    return [one for one in found if isinstance(one, kind)]


def begun(outputs: list[Output]) -> list[str]:
    return [one.message.text for one in outputs if isinstance(one, TurnBegun) and one.message is not None]


def ends(outputs: list[Output]) -> list[tuple[TurnEndReason, str | None]]:
    return [(one.reason, one.error) for one in outputs if isinstance(one, TurnEnded)]


def followed(outputs: list[Output]) -> list[str]:
    return [one.record for one in outputs if isinstance(one, Followed)]


END = (TurnEndReason.END_TURN, None)


async def test_a_turn_from_its_prompt_to_its_end(transcript: Transcript) -> None:
    assert await transcript.read() == []
    outputs = await transcript.read(
        {"type": "mode", "mode": "normal"},
        user("u1", None, "hello"),
        assistant("a1", "u1", "hi"),
        call("a2", "c1", command="ls"),
        result("r1", "c1"),
        assistant("a3", "r1", "done"),
        TURN_END,
    )
    assert isinstance(outputs[0], Registered)
    assert begun(outputs) == ["hello"]
    assert [type(one) for one in events(outputs)] == [AgentMessage, ToolCall, ToolCallUpdate, AgentMessage]
    assert ends(outputs) == [END]
    assert followed(outputs) == ["end"]
    assert outputs[-1] == Followed(record="end")
    assert transcript.follower.finished_tools == ["c1"]


async def test_a_line_is_taken_when_it_is_complete(transcript: Transcript) -> None:
    line = json.dumps(user("u1", None, "häuser")).encode() + b"\n"
    for index in range(0, len(line) - 1, 7):
        transcript.write(line[index : min(index + 7, len(line) - 1)])
        assert await transcript.read() == []
    transcript.write(b"\n")
    assert begun(await transcript.read()) == ["häuser"]


async def test_lines_that_are_no_records_are_passed_over(transcript: Transcript) -> None:
    transcript.write(b"\n{\n[]\n\xff\xfe\n" + b'{"type":5}\n')
    assert begun(await transcript.read(user("u1", None, "hello"))) == ["hello"]


async def test_a_line_longer_than_a_block_is_read_whole(transcript: Transcript) -> None:
    text = "x" * (9 * 1024 * 1024)
    outputs = await transcript.read(user("u1", None, "hello"), assistant("a1", "u1", text), TURN_END)
    assert events(outputs, AgentMessage)[0].text == text
    assert ends(outputs) == [END]


async def test_what_was_there_before_is_skipped(transcript: Transcript) -> None:
    transcript.add(user("u1", None, "before"), assistant("a1", "u1", "answer"), {"type": "mode"})
    await transcript.follower.skip()
    assert transcript.output.drain() == [Followed(record="a1")]
    assert begun(await transcript.read(user("u2", "a1", "after"))) == ["after"]


async def test_a_command_begins_a_turn_only_if_the_model_answers(transcript: Transcript) -> None:
    command = "<command-name>/{0}</command-name>\n<command-message>x</command-message>"
    outputs = await transcript.read(
        user("u0", None, "<local-command-caveat>x</local-command-caveat>", isMeta=True),
        user("u1", None, command.format("model")),
        user("u2", None, "<local-command-stdout>set</local-command-stdout>"),
    )
    assert begun(outputs) == []
    outputs = await transcript.read(
        user("u3", None, command.format("review")), assistant("a1", "u3", "reviewed"), TURN_END
    )
    assert begun(outputs) == ["/review"]
    assert ends(outputs) == [END]


async def test_a_command_of_the_shell_is_one_message_without_its_output(transcript: Transcript) -> None:
    outputs = await transcript.read(
        user("u1", None, "<bash-input>ls</bash-input>"),
        user("u2", None, "<bash-stdout>a b</bash-stdout><bash-stderr></bash-stderr>"),
    )
    assert begun(outputs) == []
    outputs = await transcript.read(assistant("a1", "u2", "two files"), TURN_END)
    assert (begun(outputs), ends(outputs)) == (["!ls"], [END])


async def test_an_interrupt_cancels_the_turn_and_its_tools(transcript: Transcript) -> None:
    outputs = await transcript.read(
        user("u1", None, "hello"),
        call("a1", "c1", command="sleep"),
        user("u2", None, [{"type": "text", "text": "[Request interrupted by user for tool use]"}]),
    )
    assert ends(outputs) == [(TurnEndReason.CANCELLED, None)]
    assert [one.status for one in events(outputs, ToolCallUpdate)] == [ToolStatus.FAILED]
    assert begun(await transcript.read(user("u3", None, "again"))) == ["again"]


async def test_an_error_of_the_model_is_the_error_of_the_turn(transcript: Transcript) -> None:
    failed = assistant("a1", "u1", "API Error: 500", isApiErrorMessage=True)
    outputs = await transcript.read(user("u1", None, "hello"), failed)
    assert (ends(outputs), events(outputs, Notice)) == ([], [])
    assert transcript.follower.has_failed
    transcript.follower.end_turn(TurnEndReason.END_TURN)
    assert ends(transcript.output.drain()) == [(TurnEndReason.FAILED, "API Error: 500")]
    assert not transcript.follower.has_failed


async def test_an_error_that_the_model_got_over_is_none(transcript: Transcript) -> None:
    failed = assistant("a1", "u1", "API Error: 500", isApiErrorMessage=True)
    outputs = await transcript.read(user("u1", None, "hello"), failed, assistant("a2", "a1", "ok"), TURN_END)
    assert ends(outputs) == [END]


async def test_a_stop_hook_that_lets_it_go_on_does_not_end_the_turn(transcript: Transcript) -> None:
    feedback = user("u2", "a1", "Stop hook feedback:\ngo on", isMeta=True)
    outputs = await transcript.read(
        user("u1", None, "hello"), assistant("a1", "u1", "one"), feedback, STOPPED
    )
    assert ends(outputs) == []
    assert transcript.follower.goes_on
    outputs = await transcript.read(assistant("a2", "u2", "two"), STOPPED, TURN_END)
    assert [one.text for one in events(outputs, AgentMessage)] == ["two"]
    assert ends(outputs) == [END]


async def test_what_is_typed_during_a_turn_belongs_to_it(transcript: Transcript) -> None:
    blocks = [{"type": "text", "text": "and this "}, {"type": "image", "source": {}}]
    outputs = await transcript.read(
        user("u1", None, "hello"),
        queued("q1", "into it"),
        queued("q2", blocks),
        queued("q3", "<task-notification>", "task-notification"),
        assistant("a1", "u1", "ok"),
        TURN_END,
    )
    assert begun(outputs) == ["hello"]
    assert [one.text for one in events(outputs, UserMessage)] == ["into it", "and this [image]"]
    assert ends(outputs) == [END]


async def test_compaction_is_an_event_and_its_summary_no_message(transcript: Transcript) -> None:
    boundary = {
        "type": "system", "subtype": "compact_boundary", "uuid": "b",
        "compactMetadata": {"trigger": "manual", "preTokens": 100, "postTokens": 10},
    }  # fmt: skip
    summary = user("s", "b", "This session is being continued", isCompactSummary=True)
    outputs = await transcript.read(boundary, summary)
    assert events(outputs) == [Compacted(automatic=False, tokens_before=100, tokens_after=10)]
    assert begun(outputs) == []


async def test_usage_is_counted_once_for_each_message_of_the_model(transcript: Transcript) -> None:
    def part(uuid: str, message: str, text: str) -> dict[str, Any]:
        record = assistant(uuid, None, text)
        record["message"] |= {"id": message, "usage": {"input_tokens": 100, "output_tokens": 10}}
        return record

    outputs = await transcript.read(
        user("u1", None, "hello"), part("a1", "m1", "x"), part("a2", "m1", "y"), part("a3", "m2", "z"), TURN_END
    )  # fmt: skip
    (usage,) = events(outputs, UsageUpdate)
    assert (usage.model, usage.input_tokens, usage.output_tokens) == ("opus", 200, 20)
    outputs = await transcript.read(user("u2", None, "again"), TURN_END)
    assert events(outputs, UsageUpdate) == []


async def test_sub_agents_are_left_out(transcript: Transcript) -> None:
    outputs = await transcript.read(
        user("u1", None, "hello"), assistant("s1", None, "inner", isSidechain=True), TURN_END
    )
    assert events(outputs) == []


async def test_another_conversation_is_followed_from_its_end(transcript: Transcript) -> None:
    other = new_id()
    transcript.add(user("o1", None, "long ago"), native_id=other)
    await transcript.read(user("u1", None, "hello"))
    transcript.add(assistant("a1", "u1", "last words"))
    await transcript.follower.switch(other)
    outputs = transcript.output.drain()
    assert [one.text for one in events(outputs, AgentMessage)] == ["last words"]
    assert ends(outputs) == [END]
    assert followed(outputs) == ["a1", "o1"]
    assert Registered(native_id=other) in outputs
    assert [one.code for one in events(outputs, Notice)] == ["conversation_changed"]
    transcript.add(user("o2", "o1", "now"), native_id=other)
    assert begun(await transcript.read(assistant("a2", "a1", "nobody sees this"))) == ["now"]
    await transcript.follower.switch(other)
    assert transcript.output.drain() == []


async def test_the_input_of_a_call_is_known_while_its_turn_runs(transcript: Transcript) -> None:
    follower = transcript.follower
    await transcript.read(user("u1", None, "hello"), call("a1", "c1", command="ls"))
    assert follower.find_input("c1") == {"command": "ls"}
    assert (follower.has_call("c1"), follower.has_call("c2"), follower.has_call(None)) == (True, False, True)
    await transcript.read(TURN_END)
    assert not follower.has_call("c1")
    assert follower.find_input("c2") == {}


# -- what was missed


def test_what_follows_a_record(transcript: Transcript) -> None:
    transcript.add(
        user("u1", None, "hello"), assistant("a1", "u1", "hi"), TURN_END,
        user("u2", "a1", "later"), queued("q1", "into it"), assistant("a2", "u2", "answer"),
    )  # fmt: skip
    found = transcript.after("a1")
    assert [(type(one), getattr(one, "text", "")) for one in found] == [
        (UserMessage, "later"), (UserMessage, "into it"), (AgentMessage, "answer"),
    ]  # fmt: skip
    assert found[0].sent_from == "terminal"  # pyright: ignore[reportAttributeAccessIssue]
    assert transcript.after("a2") == []
    assert len(transcript.after("")) == 5


def test_a_call_that_the_log_has_gets_its_result(transcript: Transcript) -> None:
    transcript.add(user("u1", None, "hello"), call("a1", "c1", command="ls"), call("a2", "c2", command="ls"))
    assert [one.status for one in transcript.after("a2") if isinstance(one, ToolCallUpdate)] == [
        ToolStatus.FAILED,
        ToolStatus.FAILED,
    ]
    transcript.add(result("r1", "c1"), assistant("a3", "r1", "done"))
    found = transcript.after("a2")
    statuses = {one.tool_call_id: one.status for one in found if isinstance(one, ToolCallUpdate)}
    assert statuses == {"c1": ToolStatus.COMPLETED, "c2": ToolStatus.FAILED}
    assert not [one for one in found if isinstance(one, UserMessage | ToolCall)]


def test_nothing_follows_what_is_not_there(transcript: Transcript) -> None:
    assert transcript.after("a1") == []
    transcript.add(user("u1", None, "hello"))
    assert transcript.after("unknown") == []


def test_the_same_directory_by_another_name(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "real")
    assert is_same_config(tmp_path / "link", tmp_path / "real")
    assert not is_same_config(tmp_path, tmp_path / "real")
