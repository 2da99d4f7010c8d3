"""What people do in a session, with its effect on the machine."""

from __future__ import annotations

import re
from pathlib import Path

from playwright.async_api import expect

from tests.support.daemons import Daemons
from tests.support.eventually import eventually
from tests.web.visitor import Visitor


async def test_a_new_session_streams_its_first_answer(farsteer: Daemons, visitor: Visitor) -> None:
    await visitor.go("new")
    await visitor.page.get_by_label("Directory", exact=True).fill(str(farsteer.directory))
    await visitor.page.get_by_label("First message").fill("slow 60")
    await visitor.page.get_by_role("button", name="Start").click()
    await expect(visitor.page.locator(".streaming")).to_contain_text("word3")
    await expect(visitor.working).to_be_visible()
    await expect(visitor.answer(" ".join(f"word{n}" for n in range(1, 61)))).to_have_count(1)
    await visitor.is_idle()
    assert re.search(r"#/s/[0-9a-f-]{36}$", visitor.page.url)


async def test_a_session_that_does_not_start_says_which_step_failed(
    farsteer: Daemons, visitor: Visitor
) -> None:
    await visitor.go("new")
    await visitor.page.get_by_label("Directory", exact=True).fill(str(farsteer.directory / "missing"))
    await visitor.page.get_by_role("button", name="Start").click()
    failure = visitor.page.locator(".failure")
    await expect(failure).to_contain_text("The session was not started")
    await expect(failure.locator("li.error")).to_contain_text("missing")


async def test_an_approval_shows_the_change_and_allows_it(
    farsteer: Daemons, visitor: Visitor, session: str
) -> None:
    await visitor.say("write notes.txt hello from the page")
    await expect(visitor.approval).to_contain_text("hello from the page")
    await expect(visitor.page.locator("[data-inbox-count]")).to_have_text("1")
    await visitor.choice("allow").click()
    await expect(visitor.answer("notes.txt is done.")).to_be_visible()
    await expect(visitor.approval).to_have_count(0)
    assert (farsteer.directory / "notes.txt").read_text() == "hello from the page\n"
    await expect(visitor.page.locator("[data-outcome=approved]")).to_be_visible()


async def test_a_denied_change_is_not_made(farsteer: Daemons, visitor: Visitor, session: str) -> None:
    await visitor.say("write notes.txt never")
    await visitor.approval.get_by_role("button", name="With a reason").click()
    await visitor.approval.get_by_label("Reason").fill("wrong file")
    await visitor.choice("deny").click()
    await expect(visitor.answer("notes.txt is as it was.")).to_be_visible()
    await expect(visitor.page.locator("[data-outcome=denied]")).to_contain_text("wrong file")
    assert not (farsteer.directory / "notes.txt").exists()


async def test_keys_answer_outside_of_the_field(farsteer: Daemons, visitor: Visitor, session: str) -> None:
    await visitor.say("write keys.txt by key")
    await expect(visitor.approval).to_be_visible()
    await visitor.composer.press("y")
    await expect(visitor.composer).to_have_value("y")
    await visitor.composer.fill("")
    await visitor.composer.press("Escape")

    async def answered() -> bool:
        # A key is not taken in the first moment after the question appeared.
        if await visitor.approval.count():
            await visitor.page.keyboard.press("y")
        return (farsteer.directory / "keys.txt").exists()

    await eventually(answered, 30)


async def test_questions_are_answered_by_choice_and_by_text(visitor: Visitor, session: str) -> None:
    await visitor.say("ask all")
    card = visitor.approval
    await expect(card.get_by_role("button", name="Answer", exact=True)).to_be_disabled()
    await card.get_by_role("button", name="green").click()
    await card.get_by_role("button", name="olives").click()
    await card.get_by_role("button", name="basil").click()
    await card.get_by_role("textbox").fill("Bob")
    await card.get_by_role("button", name="Answer", exact=True).click()
    await expect(
        visitor.answer("You chose colour: green; toppings: olives, basil; name: Bob.")
    ).to_be_visible()


async def test_a_plan_is_shown_and_one_of_several_approved(visitor: Visitor, session: str) -> None:
    await visitor.say("plan many")
    await expect(visitor.approval.get_by_role("heading", name="Plan B: the big change")).to_be_visible()
    await visitor.approval.get_by_role("button", name="Plan B").click()
    await visitor.choice("allow").click()
    await expect(visitor.answer("It was Plan B: the big change.")).to_be_visible()
    await expect(visitor.page.locator(".plan-card li.completed")).to_have_count(3)


async def test_messages_wait_and_are_cancelled_edited_or_sent_now(visitor: Visitor, session: str) -> None:
    await visitor.say("work 600 0.1")
    await expect(visitor.answer("Step 2 of 600 is done.")).to_be_visible()
    for text in ("say first", "say second", "say third"):
        await visitor.say(text)
    await expect(visitor.queued).to_have_count(3)
    await visitor.queued.filter(has_text="say first").get_by_label("Cancel").click()
    await expect(visitor.queued).to_have_count(2)
    await visitor.queued.filter(has_text="say second").get_by_label("Edit again").click()
    await expect(visitor.queued).to_have_count(1)
    await expect(visitor.composer).to_have_value("say second")
    await visitor.composer.fill("")
    await visitor.queued.get_by_role("button", name="Send now").click()
    await expect(visitor.answer("third")).to_be_visible()
    await visitor.is_idle()
    await expect(visitor.answer("first")).to_have_count(0)
    await expect(visitor.page.get_by_text("A message was cancelled")).to_have_count(2)


async def test_stop_ends_the_turn_and_says_so(visitor: Visitor, session: str) -> None:
    await visitor.say("slow 2000")
    await expect(visitor.page.locator(".streaming")).to_contain_text("word2")
    await visitor.page.get_by_role("button", name="Stop").click()
    await visitor.is_idle()
    await expect(visitor.page.get_by_text("Turn ended: stopped")).to_be_visible()
    await expect(visitor.page.get_by_text("broken off")).to_be_visible()


async def test_output_of_a_command_comes_live_and_in_colour(visitor: Visitor, session: str) -> None:
    await visitor.say(
        r"run printf '\033[31mred\033[0m plain\n'; while [ ! -e go ]; do sleep 0.05; done; echo end"
    )
    await visitor.choice("allow").click()
    tool = visitor.page.locator("[data-tool=execute]")
    await expect(tool.locator(".fg-red")).to_have_text("red")
    await expect(tool).to_have_attribute("data-status", "in_progress")
    await visitor.page.get_by_role("button", name="Stop").click()
    await expect(tool).to_have_attribute("data-status", "failed")


async def test_a_rewind_restores_the_file_and_gives_the_text_back(
    farsteer: Daemons, visitor: Visitor, session: str
) -> None:
    await visitor.say("say before")
    await expect(visitor.answer("before")).to_be_visible()
    await visitor.say("write gone.txt soon")
    await visitor.choice("allow").click()
    await expect(visitor.answer("gone.txt is done.")).to_be_visible()
    await visitor.is_idle()
    message = visitor.page.locator(".said").filter(has_text="write gone.txt")
    await message.get_by_role("button", name="Actions").click()
    await visitor.page.get_by_role("menuitem", name="Rewind").click()
    await visitor.page.get_by_role("dialog").get_by_role("button", name="Rewind").click()
    await expect(visitor.composer).to_have_value("write gone.txt soon")
    await expect(visitor.said("write gone.txt soon")).to_have_count(0)
    await expect(visitor.answer("before")).to_be_visible()
    assert not (farsteer.directory / "gone.txt").exists()


async def test_a_fork_is_another_session_with_the_same_history(visitor: Visitor, session: str) -> None:
    await visitor.say("say shared")
    await expect(visitor.answer("shared")).to_be_visible()
    await visitor.is_idle()
    await visitor.page.get_by_role("button", name="Session menu").click()
    await visitor.page.get_by_role("menuitem", name="Fork").click()
    await visitor.page.wait_for_url(lambda url: session not in url)
    await expect(visitor.answer("shared")).to_be_visible()


async def test_mode_and_model_are_switched_from_the_composer(
    farsteer: Daemons, visitor: Visitor, session: str
) -> None:
    await visitor.page.get_by_role("button", name="Permission mode").click()
    await visitor.page.get_by_role("menuitemradio", name="Never ask").click()
    await expect(visitor.page.get_by_role("button", name="Permission mode: Never ask")).to_be_visible()
    await visitor.page.get_by_role("button", name="Model:").click()
    await visitor.page.get_by_role("menuitemradio", name="demo-1-mini").click()
    await expect(visitor.page.get_by_role("button", name="Model: demo-1-mini")).to_be_visible()
    await visitor.say("write free.txt unasked")
    await expect(visitor.answer("free.txt is done.")).to_be_visible()
    assert (farsteer.directory / "free.txt").exists()


async def test_files_are_attached_and_commands_completed(
    farsteer: Daemons, visitor: Visitor, session: str, tmp_path: Path
) -> None:
    file = tmp_path / "picture.txt"
    file.write_text("content")
    await visitor.page.locator("input[type=file]").set_input_files(file)
    await visitor.say("say with a file")
    await expect(visitor.page.locator(".said").filter(has_text="picture.txt")).to_be_visible()
    await visitor.composer.fill("/he")
    await expect(visitor.page.get_by_role("option", name="/help")).to_be_visible()
    await visitor.composer.press("Tab")
    await expect(visitor.composer).to_have_value("/help ")


async def test_a_session_is_renamed_exported_and_deleted(visitor: Visitor, session: str) -> None:
    await visitor.say("say to export")
    await expect(visitor.answer("to export")).to_be_visible()
    menu = visitor.page.get_by_role("button", name="Session menu")
    await menu.click()
    await visitor.page.get_by_role("menuitem", name="Rename").click()
    await visitor.page.get_by_label("Title").fill("A better name")
    await visitor.page.get_by_role("button", name="Save").click()
    await expect(visitor.page.get_by_role("heading", name="A better name")).to_be_visible()
    await menu.click()
    async with visitor.page.expect_download() as started:
        await visitor.page.get_by_role("menuitem", name="Export as Markdown").click()
    assert "to export" in Path(await (await started.value).path()).read_text()
    await menu.click()
    await visitor.page.get_by_role("menuitem", name="Delete").click()
    await visitor.page.get_by_role("dialog").get_by_role("button", name="Delete").click()
    await expect(visitor.page.locator(f"[data-session='{session}']")).to_have_count(0)
