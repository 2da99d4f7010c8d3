"""Nothing is lost or doubled by a reload, a lost network, a killed hub, or a second browser."""

from __future__ import annotations

import signal

from playwright.async_api import Route, expect

from tests.support.daemons import Daemons
from tests.web.conftest import NewVisitor
from tests.web.visitor import Visitor

WORDS = " ".join(f"word{n}" for n in range(1, 61))


async def test_two_browsers_see_the_same_and_one_answer_counts(
    new_visitor: NewVisitor, visitor: Visitor, session: str
) -> None:
    other = await new_visitor()
    await other.open(session)
    await visitor.say("write both.txt seen by both")
    await expect(other.said("write both.txt seen by both")).to_have_count(1)
    await expect(other.approval).to_be_visible()
    await visitor.choice("allow").click()
    await expect(other.approval).to_have_count(0)
    await expect(other.answer("both.txt is done.")).to_have_count(1)
    await expect(other.page.locator("[data-outcome=approved]")).to_contain_text("Browser")


async def test_a_late_answer_is_told_how_the_first_one_was(
    new_visitor: NewVisitor, visitor: Visitor, session: str
) -> None:
    other = await new_visitor()
    await other.open(session)
    await visitor.say("write late.txt text")
    await expect(other.approval).to_be_visible()
    # While the answer of the other browser is on its way, somebody else answers.
    held: list[Route] = []

    async def answer_first(route: Route) -> None:
        held.append(route)
        await visitor.choice("deny").click()
        await expect(visitor.approval).to_have_count(0)
        await route.continue_()

    await other.page.route("**/permissions/**", answer_first)
    await other.choice("allow").click()
    await expect(other.page.get_by_text("Too late: already denied")).to_be_visible()
    assert len(held) == 1


async def test_a_reload_in_mid_turn_shows_everything_once(visitor: Visitor, session: str) -> None:
    await visitor.say("slow 60")
    await expect(visitor.page.locator(".streaming")).to_contain_text("word3")
    await visitor.composer.fill("a draft that is not sent")
    await visitor.page.reload()
    await expect(visitor.composer).to_have_value("a draft that is not sent")
    await expect(visitor.said("slow 60")).to_have_count(1)
    await expect(visitor.answer(WORDS)).to_have_count(1)
    await visitor.is_idle()


async def test_what_is_sent_without_a_network_arrives_once_and_in_order(
    visitor: Visitor, session: str
) -> None:
    await visitor.say("slow 60")
    await expect(visitor.page.locator(".streaming")).to_contain_text("word3")
    await visitor.context.set_offline(True)
    await visitor.is_disconnected()
    await visitor.say("say one")
    await visitor.say("say two")
    await expect(visitor.unsent).to_have_count(2)
    await expect(visitor.unsent.first).to_contain_text("Sent when the hub answers")
    await visitor.context.set_offline(False)
    await visitor.is_connected()
    await expect(visitor.answer("two")).to_have_count(1)
    await expect(visitor.answer("one")).to_have_count(1)
    await expect(visitor.answer(WORDS)).to_have_count(1)
    for text in ("slow 60", "say one", "say two"):
        await expect(visitor.said(text)).to_have_count(1)
    await expect(visitor.unsent).to_have_count(0)
    texts = await visitor.page.locator("[data-speaker=person] .plain").all_inner_texts()
    assert texts == ["slow 60", "say one", "say two"]


async def test_a_message_whose_answer_is_lost_is_sent_again_and_kept_once(
    visitor: Visitor, session: str
) -> None:
    tries: list[str] = []

    async def lose_the_first_answer(route: Route) -> None:
        request = route.request
        if request.method == "POST":
            body = request.post_data_json
            assert body is not None
            tries.append(body["localId"])
            if len(tries) == 1:
                await route.fetch()
                await route.abort()
                return
        await route.continue_()

    await visitor.page.route("**/messages", lose_the_first_answer)
    await visitor.say("say only once")
    await expect(visitor.answer("only once")).to_have_count(1)
    await visitor.say("say after")
    await expect(visitor.answer("after")).to_have_count(1)
    await expect(visitor.said("say only once")).to_have_count(1)
    await expect(visitor.unsent).to_have_count(0)
    assert len(tries) == 3
    assert tries[0] == tries[1]


async def test_an_unsent_message_survives_a_reload(farsteer: Daemons, visitor: Visitor, session: str) -> None:
    await visitor.page.route("**/messages", lambda route: route.abort())
    await visitor.say("say survivor")
    await expect(visitor.unsent).to_have_count(1)
    await expect(visitor.composer).to_have_value("")
    await visitor.page.unroute_all()
    await visitor.page.reload()
    await expect(visitor.answer("survivor")).to_have_count(1)
    await expect(visitor.said("say survivor")).to_have_count(1)


async def test_a_hub_that_is_killed_in_mid_turn_loses_and_doubles_nothing(
    farsteer: Daemons, visitor: Visitor, session: str
) -> None:
    await visitor.say("slow 60")
    await expect(visitor.page.locator(".streaming")).to_contain_text("word3")
    await farsteer.hub.stop(signal.SIGKILL)
    await visitor.is_disconnected()
    await visitor.say("say after the crash")
    await expect(visitor.unsent).to_have_count(1)
    farsteer.hub.start()
    await visitor.is_connected()
    await expect(visitor.answer("after the crash")).to_have_count(1)
    await expect(visitor.answer(WORDS)).to_have_count(1)
    await expect(visitor.said("slow 60")).to_have_count(1)
    await expect(visitor.said("say after the crash")).to_have_count(1)
    await visitor.is_idle()


async def test_a_long_session_opens_at_its_end_and_scrolls_back_without_a_jump(
    farsteer: Daemons, visitor: Visitor, session: str
) -> None:
    await farsteer.client.send(session, "work 500 0")
    await expect(visitor.answer("Step 500 of 500 is done.")).to_be_visible()
    await visitor.is_idle()
    await visitor.page.reload()
    await expect(visitor.answer("Step 500 of 500 is done.")).to_be_in_viewport()
    await expect(visitor.answer("Step 2 of 500 is done.")).to_have_count(0)
    log = visitor.page.get_by_role("log")
    await log.hover()
    await visitor.page.mouse.wheel(0, -300)
    await expect(visitor.page.get_by_role("button", name="Go to the end")).to_be_visible()
    async with visitor.page.expect_response(lambda answer: "beforeSeq" in answer.url) as older:
        await visitor.page.mouse.wheel(0, -100_000)
    await (await older.value).finished()
    # Two hundred entries have come before the view, which has not moved to their beginning.
    await expect(visitor.page.locator("[data-speaker=agent]").nth(300)).to_be_attached()
    top = await visitor.page.get_by_role("log").evaluate("(log) => log.scrollTop")
    assert top > 1000, top
    while not await visitor.page.get_by_text("Beginning of the session").count():
        await visitor.page.mouse.wheel(0, -4000)
        await visitor.page.evaluate("() => new Promise(requestAnimationFrame)")
    await expect(visitor.answer("Step 1 of 500 is done.")).to_have_count(1)
    steps = await visitor.page.locator("[data-speaker=agent] .markdown").all_inner_texts()
    assert steps == [f"Step {n} of 500 is done." for n in range(1, 501)]
