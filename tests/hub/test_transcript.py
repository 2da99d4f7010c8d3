"""A session as Markdown: readable, and no text in it breaks out of its place."""

import re
import time

from farsteer.core import events as ev
from farsteer.core.approvals import Approval, ApprovalKind, Outcome
from farsteer.core.events import DiffBlock, Entry, SessionEvent, TextBlock, ToolStatus, role_of
from farsteer.core.modes import ToolKind
from farsteer.core.queue import Attachment
from farsteer.hub.transcript import Transcript, closed, code, diff, fenced, folded

AT = 1_800_000_000_000


def written(*events: SessionEvent) -> str:
    transcript = Transcript()
    entries = [
        Entry(id=str(n), seq=n, role=role_of(event), created_at=AT, content=event)
        for n, event in enumerate(events, 1)
    ]
    return transcript.add(entries) + transcript.end()


def tool(id: str = "1", status: ToolStatus = ToolStatus.PENDING, **more: object) -> ev.ToolCall:
    return ev.ToolCall(tool_call_id=id, title=f"Tool {id}", tool_kind=ToolKind.EDIT, status=status, **more)  # pyright: ignore[reportArgumentType]


def test_a_turn_reads_like_a_conversation() -> None:
    text = written(
        ev.TurnStart(turn_id="t"),
        ev.UserMessage(
            item_id="i",
            text="fix it\n# please",
            sent_from="ann",
            attachments=(Attachment(name="a.png", mime_type="image/png"),),
        ),
        ev.AgentThought(message_id="1", text="hm"),
        ev.AgentMessage(message_id="2", text="Done."),
        ev.Plan(entries=(ev.PlanEntry(content="look", status="completed"), ev.PlanEntry(content="fix"))),
        ev.Notice(text="slow down", level="warning"),
        ev.TurnEnd(turn_id="t", reason=ev.TurnEndReason.END_TURN),
        ev.UserMessage(item_id="j", text="more"),
        ev.AgentMessage(message_id="3", text="I was", partial=True),
        ev.TurnEnd(turn_id="u", reason=ev.TurnEndReason.CRASHED, error="exit 1"),
    )
    assert text.index("## 1 · 2027-01-15 08:00 UTC · ann") < text.index("> fix it\n> # please")
    assert "*Attached: `a.png` (image/png)*" in text
    assert "<details><summary>Thought</summary>\n\nhm\n\n</details>" in text
    assert "\nDone.\n" in text
    assert "- [x] look\n- [ ] fix" in text
    assert "*Warning: slow down*" in text
    assert (
        text.index("## 2 · ") < text.index("*(cut short)*") < text.index("*The turn ended: crashed: exit 1*")
    )
    assert "end_turn" not in text


def test_a_tool_is_told_once_with_its_last_title_status_and_content() -> None:
    text = written(
        tool(content=(TextBlock(text="draft"),)),
        ev.ToolCallUpdate(tool_call_id="1", status=ToolStatus.IN_PROGRESS, title="Edit a.py"),
        ev.ToolCallUpdate(
            tool_call_id="1",
            status=ToolStatus.COMPLETED,
            content=(DiffBlock(path="a.py", old_text="one\ntwo", new_text="one\n2"),),
        ),
        ev.ToolCallUpdate(tool_call_id="1", status=ToolStatus.COMPLETED),
        tool("2"),
        ev.ToolCallUpdate(tool_call_id="2", status=ToolStatus.FAILED, output={"exit": 1}),
        tool("3"),
    )
    assert text.count("Edit a.py") == 1
    assert "**Edit a.py** · edit · completed\n\n`a.py`\n\n```diff\n" in text
    assert "-two\n+2" in text
    assert "draft" not in text
    assert '**Tool 2** · edit · failed\n\n```json\n{"exit":1}\n```' in text
    assert "**Tool 3** · edit · pending" in text, "what has no end is told as it stands"


def test_approvals_are_one_line_each() -> None:
    def asked(id: str) -> ev.ApprovalRequested:
        return ev.ApprovalRequested(
            approval=Approval(id=id, kind=ApprovalKind.PERMISSION, title=f"run {id}", created_at=1)
        )

    text = written(
        asked("rm"),
        ev.ApprovalResolved(approval_id="rm", outcome=Outcome.APPROVED_FOR_SESSION, by="ann", message="go"),
        asked("ls"),
        ev.TurnEnd(turn_id="t", reason=ev.TurnEndReason.CANCELLED),
    )
    assert "*Asked: run rm, approved for session by ann (go)*" in text
    assert "*Asked: run ls, and not answered*" in text


def test_a_fence_is_longer_than_any_in_its_content() -> None:
    inner = "a\n`````\nb"
    found = fenced(inner)
    assert found.startswith("``````\n")
    assert found.endswith("\n``````")
    assert code("a`b") == "``a`b``"
    assert code("`") == "`` ` ``"


def test_a_thought_cannot_end_its_fold() -> None:
    text = folded("Thought", "before </details> <DETAILS> after")
    assert text.count("</details>") == 1
    assert text.endswith("</details>")
    assert "&lt;/details>" in text


def test_a_fence_that_was_cut_short_is_closed() -> None:
    assert closed("```py\nx = 1") == "```py\nx = 1\n```"
    assert closed("~~~~\n```\n~~~") == "~~~~\n```\n~~~\n~~~~"
    for whole in ("```\na\n```", "plain", "``` inline ``` code", "````\n```\n````"):
        assert closed(whole) == whole


def test_a_line_of_ours_stays_one_line() -> None:
    text = written(ev.Notice(text="a\n\n# b"))
    assert text.strip() == "*Info: a # b*"


def test_a_long_pair_of_texts_is_compared_quickly_and_exactly() -> None:
    old = [f"line {n % 7}" for n in range(60_000)]
    new = [*old[:30_000], "another", *old[30_000:]]
    began = time.monotonic()
    found = diff("\n".join(old), "\n".join(new)).splitlines()
    assert time.monotonic() - began < 2
    assert found == ["@@ -30001,0 +30001,1 @@", "+another"]


def test_tools_that_never_end_are_not_kept_for_ever() -> None:
    transcript = Transcript()
    entries = [
        Entry(id=str(n), seq=n, role=ev.Role.AGENT, created_at=AT, content=tool(str(n))) for n in range(500)
    ]
    text = transcript.add(entries)
    assert len(re.findall(r"\*\*Tool \d+\*\*", text)) == 400
    large = tool("large", content=(TextBlock(text="x" * 5_000_000),))
    text = transcript.add([Entry(id="l", seq=1, role=ev.Role.AGENT, created_at=AT, content=large)])
    assert "**Tool large**" in text
