"""A browser gets a token of its own, keeps nothing else, and gives it back."""

from __future__ import annotations

import json

import httpx
from playwright.async_api import expect

from tests.support.daemons import TOKEN, Daemons
from tests.web.conftest import NewVisitor
from tests.web.visitor import Visitor


async def tokens(farsteer: Daemons) -> set[str]:
    async with httpx.AsyncClient(base_url=farsteer.url) as http:
        jwt = (await http.post("/api/auth", json={"accessToken": TOKEN})).json()["token"]
        listed = await http.get("/api/tokens", headers={"Authorization": f"Bearer {jwt}"})
    return {token["label"] for token in listed.json()["tokens"]}


async def minted(farsteer: Daemons, *scopes: str) -> str:
    async with httpx.AsyncClient(base_url=farsteer.url) as http:
        jwt = (await http.post("/api/auth", json={"accessToken": TOKEN})).json()["token"]
        body = {"label": "limited", "scopes": scopes}
        made = await http.post("/api/tokens", json=body, headers={"Authorization": f"Bearer {jwt}"})
    return str(made.json()["secret"])


async def test_a_wrong_token_is_told_and_nothing_is_kept(new_visitor: NewVisitor) -> None:
    visitor = await new_visitor(sign_in=False)
    await visitor.page.goto(visitor.url)
    await visitor.page.get_by_label("Access token").fill("not-a-token-of-this-hub")
    await visitor.page.get_by_role("button", name="Sign in").click()
    await expect(visitor.page.get_by_role("alert")).to_contain_text("does not know this token")
    assert "farsteer.account" not in await visitor.stored()


async def test_the_browser_keeps_a_token_of_its_own_until_it_signs_out(
    farsteer: Daemons, visitor: Visitor
) -> None:
    stored = await visitor.stored()
    assert TOKEN not in json.dumps(stored)
    assert TOKEN not in visitor.page.url
    own = json.loads(stored["farsteer.account"])
    assert any(label.startswith("Browser: Chrome") for label in await tokens(farsteer))
    await visitor.go("settings")
    await expect(visitor.page.get_by_text("This browser", exact=True)).to_be_visible()
    await visitor.page.get_by_role("button", name="Sign out").first.click()
    await expect(visitor.page.get_by_label("Access token")).to_be_visible()
    assert "farsteer.account" not in await visitor.stored()
    assert not any(label.startswith("Browser") for label in await tokens(farsteer))
    async with httpx.AsyncClient(base_url=farsteer.url) as http:
        assert (await http.post("/api/auth", json={"accessToken": own["token"]})).status_code == 401


async def test_a_token_that_makes_no_others_is_kept_itself(
    farsteer: Daemons, new_visitor: NewVisitor
) -> None:
    limited = await minted(farsteer, "read", "write")
    visitor = await new_visitor(sign_in=False)
    await visitor.sign_in(limited)
    assert json.loads((await visitor.stored())["farsteer.account"])["tokenId"] is None
    await visitor.go("settings")
    await expect(visitor.page.get_by_text("keeps the token you typed")).to_be_visible()
    await expect(visitor.page.get_by_text("may not manage tokens")).to_be_visible()


async def pairing_code(farsteer: Daemons) -> str:
    async with httpx.AsyncClient(base_url=farsteer.url) as http:
        jwt = (await http.post("/api/auth", json={"accessToken": TOKEN})).json()["token"]
        made = await http.post(
            "/api/pairings", json={"label": "phone"}, headers={"Authorization": f"Bearer {jwt}"}
        )
    return str(made.json()["code"])


async def test_the_link_of_a_pairing_signs_in_once_and_only_when_a_person_says_so(
    farsteer: Daemons, new_visitor: NewVisitor
) -> None:
    code = await pairing_code(farsteer)
    visitor = await new_visitor(sign_in=False)
    await visitor.page.goto(f"{visitor.url}/#pair={code}")
    await expect(visitor.page.get_by_label("Access token")).to_have_value(code)
    assert code not in visitor.page.url
    assert "farsteer.account" not in await visitor.stored()
    await visitor.page.get_by_role("button", name="Sign in").click()
    await visitor.is_connected()
    assert "phone" in await tokens(farsteer)
    await visitor.go("settings")
    await expect(visitor.page.get_by_text("This browser was paired")).to_be_visible()
    other = await new_visitor(sign_in=False)
    await other.page.goto(other.url)
    await other.page.get_by_label("Access token").fill(code)
    await other.page.get_by_role("button", name="Sign in").click()
    await expect(other.page.get_by_role("alert")).to_contain_text("was used or has expired")


async def test_a_browser_whose_token_is_revoked_is_signed_out(
    new_visitor: NewVisitor, visitor: Visitor
) -> None:
    other = await new_visitor()
    await other.go("settings")
    row = other.page.locator(".tokens li").filter(has_not_text="This browser")
    await row.get_by_role("button", name="Revoke").click()
    await other.page.get_by_role("dialog").get_by_role("button", name="Revoke").click()
    await expect(visitor.page.get_by_label("Access token")).to_be_visible()
    await expect(visitor.page.get_by_text("You were signed out")).to_be_visible()


async def test_what_a_signed_out_browser_had_not_sent_is_sent_after_the_next_sign_in(
    new_visitor: NewVisitor, visitor: Visitor, session: str
) -> None:
    other = await new_visitor()
    await visitor.context.set_offline(True)
    await visitor.is_disconnected()
    await visitor.say("say at last")
    await expect(visitor.unsent).to_have_count(1)
    await other.go("settings")
    row = other.page.locator(".tokens li").filter(has_not_text="This browser")
    await row.get_by_role("button", name="Revoke").click()
    await other.page.get_by_role("dialog").get_by_role("button", name="Revoke").click()
    await expect(row).to_have_count(0)
    await visitor.context.set_offline(False)
    await expect(visitor.page.get_by_text("You were signed out")).to_be_visible()
    await visitor.sign_in()
    await visitor.open(session)
    await expect(visitor.answer("at last")).to_have_count(1)
    await expect(visitor.said("say at last")).to_have_count(1)
