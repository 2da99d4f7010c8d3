"""Asks the person at a client to decide the approvals of a session. Neither silence nor a failure ever means yes."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterable
from contextlib import suppress
from typing import Any, cast

from farsteer.client.hub_client import HubClient
from farsteer.core.api import Approve, Deny
from farsteer.core.approvals import Approval, ApprovalKind, Option, OptionKind, Question, RequestedToolCall
from farsteer.core.errors import AlreadyAnswered, FarsteerError, NotFound
from farsteer.core.text import clean_line, printable_json
from farsteer.jsonrpc.errors import REQUEST_CANCELLED, PeerDisconnected, RpcError
from farsteer.jsonrpc.messages import as_object
from farsteer.jsonrpc.peer import Peer

_logger = logging.getLogger(__name__)

_REQUEST_PERMISSION = "session/request_permission"
_CREATE_ELICITATION = "elicitation/create"
_MAX_TITLE = 10_000
"""Longer than for other titles: the end of a command must not be hidden."""

_ALLOW = Option(id="farsteer:allow", name="Allow", kind=OptionKind.ALLOW_ONCE)
_REJECT = Option(id="farsteer:reject", name="Reject", kind=OptionKind.REJECT_ONCE)
_SKIP = Option(id="farsteer:skip", name="Skip", kind=OptionKind.REJECT_ONCE)
_SKIP_TEXT = Option(
    id=_SKIP.id, name="Skip (this editor takes no text: answer it elsewhere)", kind=OptionKind.REJECT_ONCE
)
_DECISION_FIELD, _COMMENT_FIELD = "farsteer:decision", "farsteer:comment"

_Decision = Approve | Deny | None
"""None: this person has not decided, another client may."""


class ApprovalPrompter:
    """Asks one client about the approvals of one session and sends its answers to the hub.

    Args:
        acp_id: the client's id of the session.
        forms: whether the client can show forms.
    """

    def __init__(self, peer: Peer, hub: HubClient, session_id: str, acp_id: str, *, forms: bool) -> None:
        self._peer = peer
        self._hub = hub
        self._session_id = session_id
        self._acp_id = acp_id
        self._forms = forms
        self._open: dict[str, asyncio.Task[None]] = {}

    def ask(self, approval: Approval) -> None:
        """Ask in the background. Does nothing if the client is being asked already."""
        if approval.id not in self._open:
            task = asyncio.get_running_loop().create_task(self._ask_and_answer(approval))
            self._open[approval.id] = task

    def withdraw(self, approval_id: str) -> None:
        """Stop asking: the approval is resolved."""
        task = self._open.pop(approval_id, None)
        if task is not None:
            task.cancel()

    def ask_again(self, approvals: Iterable[Approval]) -> None:
        """Withdraw every open question and ask anew: the dialogs of the first time may be gone."""
        for approval_id in [*self._open]:
            self.withdraw(approval_id)
        for approval in approvals:
            self.ask(approval)

    async def close(self) -> None:
        tasks = [*self._open.values()]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _ask_and_answer(self, approval: Approval) -> None:
        try:
            decision = await self._decide(approval)
            if decision is not None:
                with suppress(AlreadyAnswered, NotFound):
                    await self._hub.answer(self._session_id, approval.id, decision)
        except FarsteerError as error:
            _logger.warning("could not send the answer to approval %s: %s", approval.id, error.message)
        finally:
            if self._open.get(approval.id) is asyncio.current_task():
                del self._open[approval.id]

    async def _decide(self, approval: Approval) -> _Decision:
        try:
            if self._forms and approval.kind is not ApprovalKind.PERMISSION:
                try:
                    return await self._decide_by_form(approval)
                except PeerDisconnected:
                    raise
                except RpcError as error:
                    _logger.warning("the client could not show a form: %s", error.message)
            return await self._decide_by_options(approval)
        except RpcError as error:
            # A client that disconnected or cancelled the request has not decided anything.
            if isinstance(error, PeerDisconnected) or error.code == REQUEST_CANCELLED:
                return None
            return Deny(message=f"the editor could not ask: {error.message}")

    # -- forms

    async def _decide_by_form(self, approval: Approval) -> _Decision:
        is_plan = approval.kind is ApprovalKind.PLAN
        params = {
            "sessionId": self._acp_id,
            "mode": "form",
            "message": "\n\n".join(
                [
                    approval.plan or approval.title,
                    *(_describe_call(number, call) for number, call in enumerate(approval.tool_calls, 1)),
                ]
            ),
            "requestedSchema": _plan_schema(approval) if is_plan else _questions_schema(approval),
        }
        if approval.tool_call_id:
            params["toolCallId"] = approval.tool_call_id
        result = as_object(await self._request(_CREATE_ELICITATION, params)) or {}
        match result.get("action"):
            case "accept":
                form = as_object(result.get("content")) or {}
                return _plan_decision(approval, form) if is_plan else _questions_decision(approval, form)
            case "decline":
                return Deny(message="declined")
            case _:
                return None

    # -- options of a permission request

    async def _decide_by_options(self, approval: Approval) -> _Decision:
        if approval.kind is ApprovalKind.QUESTION:
            return await self._ask_questions(approval)
        options = approval.options or (_ALLOW, _REJECT)
        selected = await self._select(approval, options, approval.title)
        decision = _option_decision(approval, options, selected)
        if not approval.questions or not isinstance(decision, Approve):
            return decision
        answers = await self._ask_questions(approval)
        if not isinstance(answers, Approve):
            return answers
        return Approve(decision=decision.decision, option_id=decision.option_id, answers=answers.answers)

    async def _ask_questions(self, approval: Approval) -> _Decision:
        """Ask each question as a choice between its answers. A question for a free text can only be skipped."""
        answers: dict[str, list[str]] = {}
        for question in approval.questions:
            options = tuple(
                Option(id=f"farsteer:{number}", name=choice, kind=OptionKind.ALLOW_ONCE)
                for number, choice in enumerate(question.choices)
            )
            skip = _SKIP if options else _SKIP_TEXT
            selected = await self._select(approval, (*options, skip), question.text)
            if selected is None:
                return None
            chosen = [option.name for option in options if option.id == selected]
            if not chosen:
                return Deny(message="skipped")
            answers[question.id] = chosen
        return Approve(answers=answers)

    async def _select(self, approval: Approval, options: tuple[Option, ...], title: str) -> str | None:
        """Return the id of the selected option, or None if the person dismissed the request."""
        params = _permission_params(self._acp_id, approval, options, title)
        result = await self._request(_REQUEST_PERMISSION, params)
        outcome = as_object((as_object(result) or {}).get("outcome")) or {}
        selected = outcome.get("optionId")
        return selected if outcome.get("outcome") == "selected" and isinstance(selected, str) else None

    async def _request(self, method: str, params: dict[str, Any]) -> Any:
        return await self._peer.request(method, params, session_id=self._acp_id)


def _permission_params(
    acp_id: str, approval: Approval, options: tuple[Option, ...], title: str
) -> dict[str, Any]:
    tool_call: dict[str, Any] = {
        "toolCallId": approval.tool_call_id or approval.id,
        "title": clean_line(title, _MAX_TITLE),
        "kind": approval.tool_kind.value if approval.tool_kind else "other",
        "status": "pending",
    }
    if approval.tool_calls:
        tool_call["rawInput"] = {"toolCalls": approval.tool_calls}
    elif approval.arguments is not None:
        tool_call["rawInput"] = approval.arguments
    texts = [_describe_call(number, call) for number, call in enumerate(approval.tool_calls, 1)]
    if approval.plan:
        tool_call["kind"] = "switch_mode"
        texts.insert(0, approval.plan)
    if approval.seq is not None:
        texts.append(f"This is a summary: message {approval.seq} of the session's log has it whole.")
    if texts:
        tool_call["content"] = [
            {"type": "content", "content": {"type": "text", "text": text}} for text in texts
        ]
    offered = [{"optionId": option.id, "name": option.name, "kind": option.kind.value} for option in options]
    return {"sessionId": acp_id, "toolCall": tool_call, "options": offered}


def _describe_call(number: int, call: RequestedToolCall) -> str:
    """Return one of several tool calls as text: the protocol has room for one tool call only."""
    title = clean_line(call.title, _MAX_TITLE)
    return f"{number}. {title} ({call.tool_kind.value})\n{printable_json(call.arguments or {})}"


def _option_decision(approval: Approval, options: tuple[Option, ...], selected: str | None) -> _Decision:
    if selected is None:
        return None
    option = next((option for option in options if option.id == selected), None)
    if option is None:
        return Deny(message=f"option {selected!r} was not offered")
    option_id = option.id if approval.options else None
    if not option.kind.allows:
        return Deny(option_id=option_id)
    always = option.kind is OptionKind.ALLOW_ALWAYS
    return Approve(decision="approved_for_session" if always else "approved", option_id=option_id)


def _questions_schema(approval: Approval) -> dict[str, Any]:
    properties = {question.id: _question_schema(question) for question in approval.questions}
    return {"type": "object", "properties": properties, "required": [*properties]}


def _question_schema(question: Question) -> dict[str, Any]:
    if question.multiple and question.choices:
        return {
            "type": "array",
            "title": question.text,
            "minItems": 1,
            "items": {"type": "string", "enum": [*question.choices]},
        }
    schema: dict[str, Any] = {"type": "string", "title": question.text}
    if question.choices and not question.free_text:
        schema["enum"] = [*question.choices]
    elif question.choices:
        schema["description"] = "e.g. " + ", ".join(question.choices)
    return schema


def _questions_decision(approval: Approval, form: dict[str, Any]) -> _Decision:
    answers = {question.id: _answers_of(form, question) for question in approval.questions}
    return Approve(answers=answers) if all(answers.values()) else Deny(message="not answered")


def _answers_of(form: dict[str, Any], question: Question) -> list[str]:
    value = form.get(question.id)
    values = cast("list[Any]", value) if isinstance(value, list) else [value]
    return [str(answer) for answer in values if answer not in (None, "")]


def _plan_schema(approval: Approval) -> dict[str, Any]:
    options = approval.options or (_ALLOW, _REJECT)
    choices = [{"const": option.id, "title": option.name} for option in options]
    return {
        "type": "object",
        "title": approval.title,
        "properties": {
            _DECISION_FIELD: {"type": "string", "title": approval.title, "oneOf": choices},
            **{question.id: _question_schema(question) for question in approval.questions},
            _COMMENT_FIELD: {"type": "string", "title": "Comment"},
        },
        "required": [_DECISION_FIELD],
    }


def _plan_decision(approval: Approval, form: dict[str, Any]) -> _Decision:
    selected, comment = form.get(_DECISION_FIELD), form.get(_COMMENT_FIELD)
    message = comment if isinstance(comment, str) and comment else None
    options = approval.options or (_ALLOW, _REJECT)
    decision = _option_decision(approval, options, selected if isinstance(selected, str) else "")
    if not isinstance(decision, Approve):
        return Deny(option_id=decision.option_id if decision else None, message=message or "declined")
    answers = {
        question.id: given for question in approval.questions if (given := _answers_of(form, question))
    }
    return Approve(
        decision=decision.decision, option_id=decision.option_id, message=message, answers=answers or None
    )
