"""Approvals: asked as options or as forms, several at once, of several clients. Silence never means yes."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from farsteer.jsonrpc.errors import RpcError
from tests.faces.acp.conftest import Editors
from tests.support.acp_client import FORMS, Editor, RequestHandler, choose_option, never_answer, unsupported
from tests.support.stack import Stack


def fill_form(content: dict[str, Any], action: str = "accept") -> RequestHandler:
    async def answer(method: str, params: dict[str, Any]) -> Any:
        assert method == "elicitation/create"
        return {"action": action, "content": content} if action == "accept" else {"action": action}

    return answer


async def new(editor: Editor, stack: Stack) -> str:
    return (await editor.new(stack.directory()))["sessionId"]


def written(stack: Stack, name: str = "a.txt") -> bool:
    return (Path(stack.directory()) / name).exists()


@pytest.mark.parametrize(
    ("kind", "done"), [("allow_once", True), ("allow_always", True), ("reject_once", False)]
)
async def test_a_permission_is_asked_with_its_options(
    editors: Editors, stack: Stack, kind: str, done: bool
) -> None:
    async with editors(answer=choose_option(kind)) as editor:
        session = await new(editor, stack)
        await editor.prompt(session, "write a.txt x")
        assert written(stack) is done
        ((method, params),) = editor.requests
        assert method == "session/request_permission"
        assert {option["kind"] for option in params["options"]} == {
            "allow_once",
            "allow_always",
            "reject_once",
        }
        (call,) = editor.updates_of("tool_call")
        assert params["toolCall"]["toolCallId"] == call["toolCallId"]
        await editor.prompt(session, "write b.txt x")
        assert len(editor.requests) == (1 if kind == "allow_always" else 2)


async def select_unknown_option(method: str, params: dict[str, Any]) -> Any:
    return {"outcome": {"outcome": "selected", "optionId": "one that was never offered"}}


async def answer_nonsense(method: str, params: dict[str, Any]) -> Any:
    return "yes"


async def fail(method: str, params: dict[str, Any]) -> Any:
    raise RpcError(-32603, "the dialog crashed")


@pytest.mark.parametrize("answer", [unsupported, select_unknown_option, fail])
async def test_a_client_that_fails_to_ask_denies(
    editors: Editors, stack: Stack, answer: RequestHandler
) -> None:
    async with editors(answer=answer, strict=False) as editor:
        assert await editor.prompt(await new(editor, stack), "write a.txt x") == "end_turn"
        assert not written(stack)


async def test_an_invalid_answer_leaves_the_approval_open(editors: Editors, stack: Stack) -> None:
    account = await stack.sign_in()
    async with editors(answer=answer_nonsense, strict=False) as editor:
        session = await new(editor, stack)
        running = editor.start_prompt(session, "write a.txt x")
        await editor.wait_for_requests()
        (approval,) = (await account.until(session, "waiting"))["approvals"]
        assert not written(stack)
        await account.post_json(f"/api/sessions/{session}/permissions/{approval['id']}/approve", {})
        assert await running == "end_turn"
        assert written(stack)


async def test_several_permissions_are_open_at_once_and_answered_in_any_order(
    editors: Editors, stack: Stack
) -> None:
    gates = {f"several-{n}.txt": asyncio.Event() for n in (1, 2, 3)}

    async def answer(method: str, params: dict[str, Any]) -> Any:
        name = next(name for name in gates if name in str(params["toolCall"]))
        await gates[name].wait()
        return await choose_option("allow_once")(method, params)

    async with editors(answer=answer) as editor:
        session = await new(editor, stack)
        running = editor.start_prompt(session, "several 3")
        await editor.wait_for_requests(3)
        for name in ("several-3.txt", "several-1.txt", "several-2.txt"):
            gates[name].set()
            await editor.wait_until(lambda name=name: written(stack, name))
        assert await running == "end_turn"


async def test_the_first_answer_wins_and_the_other_request_is_cancelled(
    editors: Editors, stack: Stack
) -> None:
    async with editors(answer=never_answer) as slow, editors(answer=never_answer) as quick:
        session = await new(slow, stack)
        await quick.load(session)
        quick.answer = choose_option("allow_once")
        running = slow.start_prompt(session, "write a.txt x")
        assert await running == "end_turn"
        assert written(stack)
        await slow.wait_until(lambda: slow.cancelled_requests)
        await quick.wait_for_update("tool_call_update", status="completed")
        assert quick.text("user_message_chunk") == "write a.txt x"


async def test_a_client_that_disconnects_answers_nothing(editors: Editors, stack: Stack) -> None:
    account = await stack.sign_in()
    async with editors(answer=never_answer) as editor:
        session = await new(editor, stack)
        running = editor.start_prompt(session, "write a.txt x")
        await editor.wait_for_requests()
    await asyncio.gather(running, return_exceptions=True)
    assert len((await account.session(session))["approvals"]) == 1
    async with editors(answer=choose_option("allow_once")) as again:
        await again.load(session)
        await again.wait_for_update("tool_call_update", status="completed")
        assert written(stack)
        await again.wait_until(lambda: "a.txt is done." in again.text())


# -- questions and plans


async def test_a_question_is_a_form_if_the_client_supports_forms(editors: Editors, stack: Stack) -> None:
    filled = {"colour": "green", "toppings": ["cheese", "basil"], "name": "Ada"}
    async with editors(client=FORMS, answer=fill_form(filled)) as editor:
        await editor.prompt(await new(editor, stack), "ask all")
        assert editor.text() == "You chose colour: green; toppings: cheese, basil; name: Ada."
        ((_, params),) = editor.requests
        fields = params["requestedSchema"]["properties"]
        assert fields["colour"]["enum"] == ["red", "green", "blue"]
        assert fields["toppings"]["items"]["enum"] == ["cheese", "olives", "basil"]
        assert fields["name"] == {"type": "string", "title": "What shall it be called?"}


@pytest.mark.parametrize(
    ("answer", "text"),
    [
        (fill_form({}, "decline"), "Then I do not know."),
        (fill_form({}), "Then I do not know."),
    ],
    ids=["declined", "left empty"],
)
async def test_a_form_that_is_declined_or_left_empty_denies(
    editors: Editors, stack: Stack, answer: RequestHandler, text: str
) -> None:
    async with editors(client=FORMS, answer=answer) as editor:
        await editor.prompt(await new(editor, stack), "ask")
        assert editor.text() == text


async def test_a_dismissed_form_leaves_the_approval_open(editors: Editors, stack: Stack) -> None:
    account = await stack.sign_in()
    async with editors(client=FORMS, answer=fill_form({}, "cancel")) as editor:
        session = await new(editor, stack)
        running = editor.start_prompt(session, "ask")
        await editor.wait_for_requests()
        (approval,) = (await account.until(session, "waiting"))["approvals"]
        answers = {"answers": {"colour": ["blue"]}}
        await account.post_json(f"/api/sessions/{session}/permissions/{approval['id']}/approve", answers)
        assert await running == "end_turn"
        assert editor.text() == "You chose colour: blue."


async def test_a_question_is_a_choice_if_the_client_has_no_forms(editors: Editors, stack: Stack) -> None:
    async def second(method: str, params: dict[str, Any]) -> Any:
        assert method == "session/request_permission"
        return {"outcome": {"outcome": "selected", "optionId": params["options"][1]["optionId"]}}

    async with editors(answer=second) as editor:
        session = await new(editor, stack)
        await editor.prompt(session, "ask")
        assert editor.text() == "You chose colour: green."
        ((_, params),) = editor.requests
        assert params["toolCall"]["title"] == "Which colour?"
        assert [option["name"] for option in params["options"]] == ["red", "green", "blue", "Skip"]
        editor.answer = choose_option("reject_once")
        editor.clear()
        await editor.prompt(session, "ask")
        assert editor.text() == "Then I do not know."


async def test_a_free_text_question_can_be_skipped_or_answered_by_another_client(
    editors: Editors, stack: Stack
) -> None:
    account = await stack.sign_in()
    async with editors(answer=never_answer) as editor:
        session = await new(editor, stack)
        running = editor.start_prompt(session, "ask text")
        (params,) = await editor.wait_for_requests()
        assert [option["kind"] for option in params["options"]] == ["reject_once"]
        (approval,) = (await account.until(session, "waiting"))["approvals"]
        answers = {"answers": {"name": ["Grace"]}}
        await account.post_json(f"/api/sessions/{session}/permissions/{approval['id']}/approve", answers)
        assert await running == "end_turn"
        assert editor.text() == "You chose name: Grace."
        await editor.wait_until(lambda: editor.cancelled_requests)


async def test_a_form_that_the_client_fails_to_show_becomes_options(editors: Editors, stack: Stack) -> None:
    async def answer(method: str, params: dict[str, Any]) -> Any:
        if method == "elicitation/create":
            raise RpcError(-32601, "not after all")
        return await choose_option("allow_once")(method, params)

    async with editors(client=FORMS, answer=answer) as editor:
        await editor.prompt(await new(editor, stack), "ask")
        assert editor.text() == "You chose colour: red."


@pytest.mark.parametrize("allowed", [True, False])
async def test_a_plan_is_approved_or_refused_by_a_form(editors: Editors, stack: Stack, allowed: bool) -> None:
    async def answer(method: str, params: dict[str, Any]) -> Any:
        fields = params["requestedSchema"]["properties"]
        (decision,) = [name for name in fields if "oneOf" in fields[name]]
        (comment,) = [name for name in fields if fields[name]["title"] == "Comment"]
        chosen = fields[decision]["oneOf"][0 if allowed else 1]["const"]
        assert "Look around" in params["message"]
        return {"action": "accept", "content": {decision: chosen, comment: "too small"}}

    async with editors(client=FORMS, answer=answer) as editor:
        session = await new(editor, stack)
        await editor.call("session/set_mode", sessionId=session, modeId="plan")
        await editor.prompt(session, "plan")
        if allowed:
            assert editor.text() == "I have followed the plan."
            assert await editor.wait_for_update("current_mode_update", currentModeId="default")
        else:
            assert editor.text() == "I drop the plan: too small"


async def test_one_of_several_plans_is_chosen_in_a_form_and_as_options(
    editors: Editors, stack: Stack
) -> None:
    plan_b = "Plan B: the big change"

    async def form(method: str, params: dict[str, Any]) -> Any:
        fields = params["requestedSchema"]["properties"]
        (decision,) = [name for name in fields if "oneOf" in fields[name]]
        return {
            "action": "accept",
            "content": {decision: fields[decision]["oneOf"][0]["const"], "choice": plan_b},
        }

    async def options(method: str, params: dict[str, Any]) -> Any:
        offered = params["options"]
        chosen = next((one for one in offered if one["name"] == plan_b), offered[0])
        return {"outcome": {"outcome": "selected", "optionId": chosen["optionId"]}}

    for client, answer in ((FORMS, form), ({}, options)):
        async with editors(client=client, answer=answer) as editor:
            await editor.prompt(await new(editor, stack), "plan many")
            assert editor.text() == f"I have followed the plan.It was {plan_b}."


async def test_a_plan_is_shown_in_full_if_the_client_has_no_forms(editors: Editors, stack: Stack) -> None:
    async with editors(answer=choose_option("allow_once")) as editor:
        await editor.prompt(await new(editor, stack), "plan")
        ((_, params),) = editor.requests
        assert params["toolCall"]["kind"] == "switch_mode"
        assert "Look around" in params["toolCall"]["content"][0]["content"]["text"]
        assert editor.text() == "I have followed the plan."
