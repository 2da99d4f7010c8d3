"""`farsteer approvals`, `approve`, `deny` and `answer` with a hub."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from farsteer.cli.commands.approvals import _id_size
from tests.cli.conftest import RunCommand
from tests.support.eventually import eventually
from tests.support.stack import Account, Stack

pytestmark = pytest.mark.slow


async def asked(hub: Stack, account: Account, text: str) -> tuple[str, Any]:
    """Let an agent ask; return the session and the approval."""
    session = await hub.create(account)
    await account.say(session, text)
    return session, await open_approval(account, session)


async def open_approval(account: Account, session: str) -> Any:
    found: list[Any] = []

    async def shown() -> bool:
        listed = (await account.get_json("/api/approvals"))["approvals"]
        found[:] = [view["approval"] for view in listed if view["sessionId"] == session]
        return bool(found)

    await eventually(shown)
    return found[0]


async def resolution(account: Account, session: str) -> Any:
    log = await account.messages(session, limit=200)
    return [entry["content"] for entry in log if entry["content"]["kind"] == "approval_resolved"][-1]


async def test_the_inbox(hub: Stack, run_command: RunCommand) -> None:
    empty = await run_command("approvals")
    assert (empty.code, empty.out, "no agent waits" in empty.err) == (0, "", True)
    account = await hub.sign_in()
    session, approval = await asked(hub, account, "write a.txt hello")
    listed = await run_command("approvals")
    header, row = listed.lines
    assert header.split() == ["ID", "SESSION", "KIND", "AGE", "TITLE"]
    assert row.split()[:3] == [approval["id"][:8], session[:8], "permission"]
    assert "a.txt" in row
    (view,) = [json.loads(line) for line in (await run_command("approvals", "--json")).lines]
    assert (view["sessionId"], view["approval"]["id"]) == (session, approval["id"])
    shown = await run_command("approvals", approval["id"][:8])
    assert "hello" in shown.out
    assert f"farsteer approve {approval['id'][:8]}" in shown.out


async def test_a_permission_is_approved(hub: Stack, run_command: RunCommand) -> None:
    account = await hub.sign_in()
    session, approval = await asked(hub, account, "write a.txt hello")
    result = await run_command("approve", approval["id"][:8])
    assert (result.code, result.out) == (0, "")
    assert "approved: " in result.err
    await account.until(session, "idle")
    assert (Path(hub.directory()) / "a.txt").exists()
    again = await run_command("approve", approval["id"][:8])
    assert (again.code, "farsteer approvals" in again.err) == (1, True)


async def test_always_is_for_the_session(hub: Stack, run_command: RunCommand) -> None:
    account = await hub.sign_in()
    session, approval = await asked(hub, account, "write a.txt hello")
    assert (await run_command("approve", "--always", approval["id"])).code == 0
    await account.until(session, "idle")
    assert (await resolution(account, session))["outcome"] == "approved_for_session"


async def test_an_option_of_the_agent(hub: Stack, run_command: RunCommand) -> None:
    account = await hub.sign_in()
    session, approval = await asked(hub, account, "plan many")
    allowing = [option for option in approval["options"] if option["kind"].startswith("allow")]
    refusing = [option for option in approval["options"] if option["kind"].startswith("reject")]
    wrong = await run_command("approve", approval["id"], "--option", "nothing")
    assert wrong.code == 2
    assert allowing[-1]["id"] in wrong.err
    denying = await run_command("approve", approval["id"], "--option", refusing[0]["id"])
    assert (denying.code, "farsteer deny" in denying.err) == (2, True)
    assert (await run_command("approve", approval["id"], "--option", allowing[-1]["name"])).code == 0
    await account.until(session, "idle")
    assert (await resolution(account, session))["optionId"] == allowing[-1]["id"]


async def test_a_permission_is_denied_with_a_reason(hub: Stack, run_command: RunCommand) -> None:
    account = await hub.sign_in()
    session, approval = await asked(hub, account, "write a.txt hello\nsay going on")
    result = await run_command("deny", approval["id"][:8], "--reason", "use b.txt")
    assert (result.code, "denied: " in result.err) == (0, True)
    await account.shows(session, lastMessage="going on", status="idle")
    answer = await resolution(account, session)
    assert (answer["outcome"], answer["message"]) == ("denied", "use b.txt")
    assert not (Path(hub.directory()) / "a.txt").exists()


async def test_a_denial_can_stop_the_turn(hub: Stack, run_command: RunCommand) -> None:
    account = await hub.sign_in()
    session, approval = await asked(hub, account, "write a.txt hello\nsay going on")
    assert (await run_command("deny", "--stop", approval["id"])).code == 0
    await account.until(session, "idle")
    assert (await resolution(account, session))["outcome"] == "abort"
    assert (await account.session(session))["lastMessage"] != "going on"


async def test_questions_are_answered(hub: Stack, run_command: RunCommand) -> None:
    account = await hub.sign_in()
    for text, answers, chosen in (
        ("ask", ["2"], lambda question: [question["choices"][1]]),
        ("ask many", ["1", "2"], lambda question: question["choices"][:2]),
        ("ask text", ["in", "my", "words"], lambda _: ["in my words"]),
    ):
        session, approval = await asked(hub, account, text)
        assert (await run_command("answer", approval["id"][:8], *answers)).code == 0
        await account.until(session, "idle")
        (question,) = approval["questions"]
        assert (await resolution(account, session))["answers"] == {question["id"]: chosen(question)}


async def test_several_questions_need_as_many_answers(hub: Stack, run_command: RunCommand) -> None:
    account = await hub.sign_in()
    session, approval = await asked(hub, account, "ask all")
    few = await run_command("answer", approval["id"], "1")
    assert (few.code, "3 questions" in few.err) == (2, True)
    wrong = await run_command("answer", approval["id"], "99", "1", "x")
    assert (wrong.code, "1) " in wrong.err) == (2, True)
    shown = await run_command("approvals", approval["id"])
    assert all(question["text"] in shown.out for question in approval["questions"])
    assert (await run_command("answer", approval["id"], "1", "1,2", "some text")).code == 0
    await account.until(session, "idle")
    assert len((await resolution(account, session))["answers"]) == 3


async def test_wrong_commands_name_the_right_ones(hub: Stack, run_command: RunCommand) -> None:
    account = await hub.sign_in()
    _, question = await asked(hub, account, "ask")
    session, permission = await asked(hub, account, "write a.txt hello")
    for argv, code, said in (
        (["approve", question["id"]], 2, f"farsteer answer {question['id'][:8]}"),
        (["answer", permission["id"], "1"], 2, f"farsteer approve {permission['id'][:8]}"),
        (["approve", session], 1, permission["id"]),
        (["approve", "zzz"], 1, "farsteer approvals"),
        (["approve", ""], 2, permission["id"]),
        (["approve", permission["id"], "--option", "x"], 2, "choose from"),
    ):
        result = await run_command(*argv)
        assert (result.code, said in result.err) == (code, True), (argv, result.err)


def test_ids_are_shown_as_long_as_needed() -> None:
    assert _id_size([]) == 8
    assert _id_size(["aaaaaaaaa1", "aaaaaaaaa2"]) == 10
