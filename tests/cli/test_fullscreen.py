"""The parts of the full-screen interface, without a terminal: drawing, scrolling, answering by one key."""

from __future__ import annotations

import io
from typing import Any

import pytest
from rich.console import Console
from textual.app import App, ComposeResult
from textual.widgets import Static

from farsteer.cli.fullscreen import approval_panel
from farsteer.cli.fullscreen.app import FarsteerApp
from farsteer.cli.fullscreen.approval_panel import ApprovalPanel
from farsteer.cli.fullscreen.composer import Composer
from farsteer.cli.fullscreen.dialogs import Chosen, Item, ListDialog, ListOptions
from farsteer.cli.fullscreen.log_widget import LogWidget
from farsteer.cli.fullscreen.rendering import render_block
from farsteer.cli.terminal.approval_prompt import ApprovalPrompt
from farsteer.cli.terminal.blocks import Block, BlockList, MessageBlock, Speaker, ToolBlock
from farsteer.core import events as ev
from farsteer.core.approvals import Approval, ApprovalKind, Option, OptionKind, Question
from farsteer.core.events import SessionEvent, ToolStatus, make_entry
from farsteer.core.modes import ToolKind
from tests.cli.test_log_view import EVENTS


def drawn(block: Block, width: int = 40, *, unfolded: bool = False) -> str:
    console = Console(width=width, file=io.StringIO(), color_system=None, legacy_windows=False)
    with console.capture() as capture:
        console.print(render_block(block, unfolded=unfolded))
    return capture.get()


def tool(*content: ev.ToolContent, status: ToolStatus = ToolStatus.COMPLETED) -> ToolBlock:
    call = ev.ToolCall(tool_call_id="t", title="Run it", tool_kind=ToolKind.EXECUTE, status=status)
    return ToolBlock(1, call, "Run it", status, content)


@pytest.mark.parametrize("event", EVENTS, ids=lambda event: type(event).__name__)
def test_nothing_in_the_log_can_control_the_terminal(event: SessionEvent) -> None:
    log = BlockList()
    for seq, one in enumerate((*EVENTS[3:4], *EVENTS[8:9], event), 1):
        log.add(make_entry("s", seq, one, 1))
    text = "".join(drawn(block, unfolded=True) for block in log.blocks)
    assert "evil" in text
    assert not {"\x1b", "\x07", "\r", "\u202e"} & set(text)


def test_markdown_is_rendered_and_words_stay_whole() -> None:
    text = "# Result\n\nThe **quick** `brown` fox jumps over [the dog](http://x.org)\n\n- one\n- two"
    lines = drawn(MessageBlock(1, Speaker.AGENT, text), 24)
    assert [line.strip() for line in lines.splitlines()] == [
        "Result", "", "The quick brown fox", "jumps over the dog", "(http://x.org)", "", "• one", "• two",
    ]  # fmt: skip


def test_a_tool_call_is_folded_and_a_diff_has_signs_without_colours() -> None:
    block = tool(ev.TextBlock(text="\n".join(map(str, range(40)))))
    assert drawn(block).splitlines()[-1].strip() == "… 36 more lines (Ctrl-O unfolds)"
    assert drawn(block, unfolded=True).splitlines()[-1].strip() == "39"
    diff = tool(ev.DiffBlock(path="a.py", old_text="one\ntwo\n", new_text="one\nthree\n"))
    assert [line.strip() for line in drawn(diff).splitlines()] == [
        "● Run it", "a.py  +1 -1", "@@ -1,2 +1,2 @@", "one", "-two", "+three",
    ]  # fmt: skip


class LogApp(App[None]):
    def compose(self) -> ComposeResult:
        yield LogWidget()


def messages(first: int, last: int) -> list[Block]:
    return [MessageBlock(n, Speaker.PERSON, f"message {n}") for n in range(first, last + 1)]


def top(log: LogWidget) -> str:
    return "".join(log.render_line(y).text for y in range(2)).strip()


async def test_the_end_stays_in_view_until_the_person_scrolls_and_older_pages_move_nothing() -> None:
    app = LogApp()
    async with app.run_test(size=(60, 20)) as pilot:
        log = app.query_one(LogWidget)
        newer = messages(200, 300)
        log.show(newer)
        assert log.following
        newer += messages(301, 350)
        log.show(newer)
        await pilot.pause()
        assert "message 350" in log.render_line(18).text
        log.scroll_to(y=31, animate=False, immediate=True)
        await pilot.pause()
        before = top(log)
        log.show([*messages(100, 199), *newer, *messages(351, 360)])
        await pilot.pause()
        assert (top(log), log.following) == (before, False)
        await pilot.resize_terminal(40, 12)
        assert top(log) == before


class PanelApp(App[None]):
    def __init__(self, approval: Approval) -> None:
        super().__init__()
        self.prompt = ApprovalPrompt(approval)
        self.heard: list[Any] = []

    def compose(self) -> ComposeResult:
        yield ApprovalPanel()
        yield Composer()

    def on_mount(self) -> None:
        panel = self.query_one(ApprovalPanel)
        panel.show(self.prompt, 1, described=False)
        panel.focus()

    def on_approval_panel_replied(self, event: ApprovalPanel.Replied) -> None:
        self.heard.append(event.line)

    def on_approval_panel_words_wanted(self, event: ApprovalPanel.WordsWanted) -> None:
        self.heard.append((event.prefix, event.label))

    def on_approval_panel_typed(self, event: ApprovalPanel.Typed) -> None:
        self.heard.append({event.character})

    @property
    def shown(self) -> str:
        console = Console(width=80, file=io.StringIO(), color_system=None)
        with console.capture() as capture:
            console.print(self.query_one(ApprovalPanel).query_one(Static).content)
        return capture.get()


def asked(kind: ApprovalKind, *questions: Question, options: tuple[Option, ...] = ()) -> Approval:
    return Approval(id="a", kind=kind, title="it", created_at=1, questions=questions, options=options)


PLAN = asked(
    ApprovalKind.PLAN,
    options=(
        Option(id="1", name="Approve, ask before each edit", kind=OptionKind.ALLOW_ONCE),
        Option(id="2", name="Approve and accept edits", kind=OptionKind.ALLOW_ALWAYS),
        Option(id="3", name="Approve and do everything", kind=OptionKind.ALLOW_ALWAYS),
        Option(id="4", name="Keep planning", kind=OptionKind.REJECT_ONCE),
    ),
)
MANY = Question(id="q", text="Which?", choices=("a", "b", "c"), multiple=True)
FREE = Question(id="q", text="Name?", free_text=True)


@pytest.mark.parametrize(
    ("approval", "keys", "heard"),
    [
        (asked(ApprovalKind.PERMISSION), "y", ["y"]),
        (asked(ApprovalKind.PERMISSION), "r", [("n ", "why not, or what to do instead")]),
        (asked(ApprovalKind.PERMISSION), "h", [{"h"}]),
        (PLAN, "1", ["1"]),
        (PLAN, "a", ["a"]),
        (asked(ApprovalKind.QUESTION, MANY), "1 3 1 2 enter", ["2,3"]),
        (asked(ApprovalKind.QUESTION, FREE), "B", [("", "your answer"), {"B"}]),
    ],
)
async def test_one_key_answers(
    approval: Approval, keys: str, heard: list[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(approval_panel, "DEAF_SECONDS", -1)
    app = PanelApp(approval)
    async with app.run_test() as pilot:
        for choice in app.prompt.choices:
            assert f"{choice.key}  " in app.shown
        await pilot.press(*keys.split())
        assert app.heard == heard


async def test_a_key_that_comes_with_the_question_is_part_of_a_message() -> None:
    app = PanelApp(asked(ApprovalKind.PERMISSION))
    async with app.run_test() as pilot:
        await pilot.press("y", "enter")
        assert app.heard == [{"y"}]


class DialogApp(App[None]):
    def __init__(self, options: ListOptions, *items: Item) -> None:
        super().__init__()
        self._items, self._options = items, options
        self.chosen: list[Chosen | None] = []

    def on_mount(self) -> None:
        self.push_screen(ListDialog("Which [red]?", self._items, self._options), self.chosen.append)


@pytest.mark.parametrize(
    ("options", "keys", "chosen"),
    [
        (ListOptions(), "enter", Chosen("a")),
        (ListOptions(), "b enter", Chosen("b")),
        (ListOptions(initial="b"), "enter", Chosen("b")),
        (ListOptions(free_text=True), "z enter", Chosen("z")),
        (ListOptions(free_text=True), "slash a enter", Chosen("/a")),
        (ListOptions(keys={"d": "deletes"}, filtered=False), "down d", Chosen("b", "d")),
        (ListOptions(), "escape", None),
    ],
)
async def test_a_list_is_filtered_by_typing(options: ListOptions, keys: str, chosen: Chosen | None) -> None:
    app = DialogApp(options, Item("a", "path/alpha [/]"), Item("b", "beta"), Item("c", "gone", enabled=False))
    async with app.run_test() as pilot:
        await pilot.press(*keys.split())
        await pilot.pause()
        assert app.chosen == [chosen]


async def test_a_failure_of_ours_ends_with_an_error_and_not_with_the_values_of_variables(
    capsys: pytest.CaptureFixture[str],
) -> None:
    class Failing(FarsteerApp):
        async def on_mount(self) -> None:
            self.run_worker(self._break())

        async def _break(self) -> None:
            secret = "a-token"
            raise ValueError(f"broken {len(secret)}")

    app = Failing(None, None, tail=1)  # pyright: ignore[reportArgumentType]
    await app.run_async(headless=True)
    with pytest.raises(ValueError, match="broken 7"):
        app.raise_failure()
    assert "a-token" not in "".join(capsys.readouterr())
