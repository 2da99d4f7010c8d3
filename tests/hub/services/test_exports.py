"""Exports: the visible log of a session as JSONL and Markdown, read in pages."""

import json
import re
import time
from collections.abc import AsyncIterator
from typing import Any

import msgspec
import pytest

from farsteer.core import events as ev
from farsteer.core.approvals import Approval, ApprovalKind, Outcome
from farsteer.core.errors import NotFound
from farsteer.core.events import DiffBlock, Entry, SessionEvent, TextBlock, ToolStatus, decode_entry, role_of
from farsteer.core.modes import ToolKind
from farsteer.core.queue import Attachment, QueueItem
from farsteer.hub import Hub
from farsteer.hub.services import exports
from farsteer.hub.services.exports import MarkdownTranscript, close_fences, code_block, code_span, diff, fold
from farsteer.link.messages import EncodedEntry, Events
from tests.hub.scripted import ScriptedRunner, caller
from tests.support.eventually import eventually

ME = caller()


async def whole(chunks: AsyncIterator[bytes]) -> str:
    return b"".join([chunk async for chunk in chunks]).decode()


async def lines(hub: Hub, session_id: str) -> list[dict[str, Any]]:
    export = await hub.exports.export(ME, session_id, "jsonl")
    return [json.loads(line) for line in (await whole(export.chunks)).splitlines()]


def says(count: int) -> list[ev.AgentMessage]:
    return [ev.AgentMessage(message_id=str(n), text=f"text {n}") for n in range(count)]


async def test_jsonl_is_a_header_and_every_visible_entry_as_it_is_stored(
    hub: Hub, runner: ScriptedRunner, session_id: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(exports, "_PAGE_SIZE", 3)
    await runner.append(session_id, *says(10))
    await hub.store.clear_messages(ME.namespace, session_id, 8)
    head, *entries = await lines(hub, session_id)
    assert (head["format"], head["version"]) == ("farsteer-session", 1)
    assert head["session"]["id"] == session_id
    page = json.loads(await hub.messages.list(ME, session_id))
    assert entries == page["messages"]
    assert len(entries) == 8


async def test_what_was_rewound_is_in_no_export(
    hub: Hub, runner: ScriptedRunner, session_id: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(exports, "_PAGE_SIZE", 2)
    await runner.append(session_id, *says(6))
    files = ev.FilesRestored(status=ev.FileRestore.SKIPPED)
    await runner.append(session_id, ev.Rewound(first_seq=3, files=files))
    await runner.append(session_id, ev.AgentMessage(message_id="7", text="another way"))
    _, *entries = await lines(hub, session_id)
    page = json.loads(await hub.messages.list(ME, session_id))
    assert entries == page["messages"]
    export = await hub.exports.export(ME, session_id, "markdown")
    text = await whole(export.chunks)
    assert "text 1" in text
    assert "text 2" not in text
    assert text.endswith("another way\n")


async def test_an_export_is_read_in_pages_and_ends_where_the_session_was(
    hub: Hub, runner: ScriptedRunner, session_id: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(exports, "_PAGE_SIZE", 4)
    await runner.append(session_id, *says(10))
    export = await hub.exports.export(ME, session_id, "jsonl")
    chunks = [await anext(export.chunks)]
    await runner.append(session_id, *says(10))
    chunks += [chunk async for chunk in export.chunks]
    assert [chunk.count(b"\n") for chunk in chunks] == [1, 4, 4, 2]


async def test_only_the_next_page_is_read_ahead(
    hub: Hub, runner: ScriptedRunner, session_id: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(exports, "_PAGE_SIZE", 3)
    await runner.append(session_id, *says(12))
    asked: list[int] = []
    page = hub.store.read_page

    async def counting(*place: Any, after: int, **limits: Any) -> Any:
        asked.append(after)
        return await page(*place, after=after, **limits)

    monkeypatch.setattr(hub.store, "read_page", counting)
    pages = hub.exports.pages(ME, session_id)
    first = await anext(pages)
    await eventually(lambda: asked == [0, 3])
    assert [decode_entry(body).seq for body in first + await anext(pages)] == [1, 2, 3, 4, 5, 6]
    await pages.aclose()
    assert asked[-1] <= 6
    with pytest.raises(NotFound):
        await anext(hub.exports.pages(caller("other"), session_id))


async def test_closing_an_export_early_discards_later_errors(
    hub: Hub, runner: ScriptedRunner, session_id: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(exports, "_PAGE_SIZE", 3)
    await runner.append(session_id, *says(12))
    pages = hub.exports.pages(ME, session_id)
    await anext(pages)
    await hub.sessions.delete(ME, session_id)
    await pages.aclose()


async def test_an_export_of_a_session_that_is_deleted_meanwhile_fails(
    hub: Hub, runner: ScriptedRunner, session_id: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(exports, "_PAGE_SIZE", 4)
    await runner.append(session_id, *says(10))
    for kind in ("jsonl", "markdown"):
        with pytest.raises(NotFound):
            await hub.exports.export(caller("other"), session_id, kind)
    both = [await hub.exports.export(ME, session_id, kind) for kind in ("jsonl", "markdown")]
    for export in both:
        await anext(export.chunks)
    await hub.sessions.delete(ME, session_id)
    for export in both:
        with pytest.raises(NotFound):
            await whole(export.chunks)


async def test_markdown_has_title_facts_and_the_conversation(
    hub: Hub, runner: ScriptedRunner, session_id: str
) -> None:
    await runner.append(
        session_id,
        ev.UserMessage(item_id="1", text="what is\n6 * 7"),
        ev.AgentMessage(message_id="1", text="42"),
        ev.UsageUpdate(input_tokens=1200, output_tokens=30, cost_usd=0.123, model="sonnet"),
    )
    export = await hub.exports.export(ME, session_id, "markdown")
    text = await whole(export.chunks)
    assert text.startswith("# what is\n\n- Agent: demo\n- Directory: `/work`\n")
    assert f"- Session: `{session_id}`" in text
    assert "- Used: 1,200 tokens in, 30 out, $0.12" in text
    assert text.endswith("> what is\n> 6 * 7\n\n42\n")


async def test_no_attachments_data_leaves_the_hub(hub: Hub, runner: ScriptedRunner, session_id: str) -> None:
    runner.confirms_messages = False
    files = (Attachment(name="a.txt", data="c2VjcmV0", size=6),)
    item = QueueItem(id="3f0ad5c4-9f5b-4a52-93c5-6d70a8bd19b1", text="see", created_at=1, attachments=files)
    await hub.store.accept_item(ME.namespace, session_id, item)
    export = await hub.exports.export(ME, session_id, "jsonl")
    text = await whole(export.chunks)
    assert "a.txt" in text
    assert "c2VjcmV0" not in text


async def test_an_entry_is_one_line_however_a_runner_wrote_it(
    hub: Hub, runner: ScriptedRunner, session_id: str
) -> None:
    log = runner.logs[session_id]
    item = log.add(ev.AgentMessage(message_id="1", text="a\nb"))
    spread = json.dumps(json.loads(bytes(item.body)), indent=2).encode()
    await runner.send(
        Events(session=session_id, entries=[EncodedEntry(item.seq, item.kind, msgspec.Raw(spread))])
    )
    await runner.wait_until(lambda: runner.acked.get(session_id) == item.seq)
    _, entry = await lines(hub, session_id)
    assert entry["content"]["text"] == "a\nb"


async def test_the_files_name_comes_from_the_title(hub: Hub, runner: ScriptedRunner, session_id: str) -> None:
    async def names(title: str) -> tuple[str, str]:
        await runner.append(session_id, ev.TitleUpdate(title=title, by_user=True))
        export = await hub.exports.export(ME, session_id, "markdown")
        return export.filename, export.ascii_filename

    end = f"{session_id[:8]}.md"
    assert await names('the "login" bug; ../x\r\n') == (f"the-login-bug-x-{end}", f"the-login-bug-x-{end}")
    assert await names("---") == (f"session-{end}", f"session-{end}")
    assert await names("das Übel") == (f"das-Übel-{end}", f"session-{end}")


AT = 1_800_000_000_000


def written(*events: SessionEvent) -> str:
    transcript = MarkdownTranscript()
    entries = [
        Entry(id=str(n), seq=n, role=role_of(event), created_at=AT, content=event)
        for n, event in enumerate(events, 1)
    ]
    return transcript.render(entries) + transcript.render_end()


def tool(id: str = "1", status: ToolStatus = ToolStatus.PENDING, **more: Any) -> ev.ToolCall:
    return ev.ToolCall(tool_call_id=id, title=f"Tool {id}", tool_kind=ToolKind.EDIT, status=status, **more)


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


def test_a_tool_is_written_once_with_its_last_title_status_and_content() -> None:
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
    assert "**Tool 3** · edit · pending" in text, "an unfinished tool is written as it is"


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
    found = code_block(inner)
    assert found.startswith("``````\n")
    assert found.endswith("\n``````")
    assert code_span("a`b") == "``a`b``"
    assert code_span("`") == "`` ` ``"


def test_a_thought_cannot_end_its_fold() -> None:
    text = fold("Thought", "before </details> <DETAILS> after")
    assert text.count("</details>") == 1
    assert text.endswith("</details>")
    assert "&lt;/details>" in text


def test_a_fence_that_was_cut_short_is_closed() -> None:
    assert close_fences("```py\nx = 1") == "```py\nx = 1\n```"
    assert close_fences("~~~~\n```\n~~~") == "~~~~\n```\n~~~\n~~~~"
    for whole in ("```\na\n```", "plain", "``` inline ``` code", "````\n```\n````"):
        assert close_fences(whole) == whole


def test_inserted_texts_stay_on_one_line() -> None:
    text = written(ev.Notice(text="a\n\n# b"))
    assert text.strip() == "*Info: a # b*"


def test_a_long_pair_of_texts_is_compared_quickly_and_exactly() -> None:
    old = [f"line {n % 7}" for n in range(60_000)]
    new = [*old[:30_000], "another", *old[30_000:]]
    began = time.monotonic()
    found = diff("\n".join(old), "\n".join(new)).splitlines()
    assert time.monotonic() - began < 2
    assert found == ["@@ -30001,0 +30001,1 @@", "+another"]


def test_open_tools_are_limited() -> None:
    transcript = MarkdownTranscript()
    entries = [
        Entry(id=str(n), seq=n, role=ev.Role.AGENT, created_at=AT, content=tool(str(n))) for n in range(500)
    ]
    text = transcript.render(entries)
    assert len(re.findall(r"\*\*Tool \d+\*\*", text)) == 400
    large = tool("large", content=(TextBlock(text="x" * 5_000_000),))
    text = transcript.render([Entry(id="l", seq=1, role=ev.Role.AGENT, created_at=AT, content=large)])
    assert "**Tool large**" in text


async def test_an_export_shows_no_control_characters(
    hub: Hub, runner: ScriptedRunner, session_id: str
) -> None:
    evil = "``\x1b`\n\x1b[2J\x9b31m\u202etxt.exe"
    await runner.append(session_id, ev.AgentMessage(message_id="1", text=evil))
    export = await hub.exports.export(ME, session_id, "jsonl")
    text = await whole(export.chunks)
    assert all(line.isprintable() for line in text.split("\n"))
    assert json.loads(text.splitlines()[-1])["content"]["text"] == evil, "the value is unchanged"
    export = await hub.exports.export(ME, session_id, "markdown")
    text = await whole(export.chunks)
    assert all(line.isprintable() for line in text.split("\n"))
    assert "[2J31mtxt.exe" in text


def test_removed_characters_close_no_fence() -> None:
    assert code_block("``\x1b`").startswith("````\n")
    assert fold("x", "<\u200b/details>").count("</details>") == 1
