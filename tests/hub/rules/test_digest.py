from __future__ import annotations

from farsteer.core.events import (
    AgentMessage,
    Location,
    SessionEvent,
    ToolCall,
    ToolCallUpdate,
    ToolStatus,
    UserMessage,
)
from farsteer.core.modes import ToolKind
from farsteer.hub.rules.digest import MAX_CHARS, make_digest


def person(text: str) -> UserMessage:
    return UserMessage(item_id="i", text=text)


def agent(text: str, parent: str | None = None) -> AgentMessage:
    return AgentMessage(message_id="m", text=text, parent_tool_call_id=parent)


def tool(id: str, kind: ToolKind, *paths: str) -> ToolCall:
    places = tuple(Location(path) for path in paths)
    return ToolCall(tool_call_id=id, title="t", tool_kind=kind, status=ToolStatus.COMPLETED, locations=places)


def test_what_was_said_and_which_files_were_changed() -> None:
    events: list[SessionEvent] = [
        person("fix it"), tool("r", ToolKind.READ, "read.txt"), tool("e", ToolKind.EDIT, "a.txt"),
        ToolCallUpdate(tool_call_id="e", locations=(Location("b.txt"), Location("a.txt"))),
        agent("a sub-agent", parent="e"), agent("fixed"),
    ]  # fmt: skip
    digest = make_digest("claude", "The bug", events)
    assert "from claude, under the title The bug" in digest
    assert "- a.txt\n- b.txt\n" in digest
    assert "read.txt" not in digest
    assert "sub-agent" not in digest
    assert digest.index("Person: fix it") < digest.index("claude: fixed")


def test_a_long_conversation_keeps_its_beginning_and_its_end() -> None:
    events = [person(f"number {number} " + "x" * 5000) for number in range(100)]
    digest = make_digest("demo", None, events)
    assert len(digest) <= MAX_CHARS
    assert "number 0 " in digest
    assert "number 99 " in digest
    assert "number 50 " not in digest
    left_out = int(digest.split(" messages are left out")[0].rsplit("[", 1)[1])
    assert left_out + digest.count("Person: ") == 100


def test_a_digest_is_bounded_whatever_the_names_of_files_are() -> None:
    events: list[SessionEvent] = [
        tool("e", ToolKind.EDIT, *(f"{number}/" + "y" * 1000 for number in range(300)))
    ]
    digest = make_digest("demo", "t" * 5000, [*events, person("go\x1b[2J on")])
    assert len(digest) <= 2 * MAX_CHARS
    assert "and 250 more" in digest
    assert "\x1b" not in digest
