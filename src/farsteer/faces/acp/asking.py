"""What only a person can answer, put to the person at the editor. No answer, and no way to ask, never mean yes."""

from __future__ import annotations

import logging
from typing import Any, cast

from farsteer.core.api import Approve, Deny
from farsteer.core.approvals import Approval, ApprovalKind, Option, OptionKind, Question
from farsteer.jsonrpc.errors import REQUEST_CANCELLED, PeerDisconnected, RpcError
from farsteer.jsonrpc.messages import as_object
from farsteer.jsonrpc.peer import Peer

_log = logging.getLogger(__name__)

PERMISSION = "session/request_permission"
ELICITATION = "elicitation/create"

_ALLOW = Option(id="farsteer:allow", name="Allow", kind=OptionKind.ALLOW_ONCE)
_REJECT = Option(id="farsteer:reject", name="Reject", kind=OptionKind.REJECT_ONCE)
_SKIP = Option(id="farsteer:skip", name="Skip", kind=OptionKind.REJECT_ONCE)
_ELSEWHERE = Option(
    id=_SKIP.id, name="Skip (this editor takes no text: answer it elsewhere)", kind=OptionKind.REJECT_ONCE
)
_DECISION, _COMMENT = "farsteer:decision", "farsteer:comment"

Decision = Approve | Deny | None
"""None: the person has not decided; somebody else may."""


class Desk:
    """Asks one client in the ways it can be asked."""

    def __init__(self, peer: Peer, *, forms: bool) -> None:
        self._peer = peer
        self._forms = forms
        """The client can show a form."""

    async def ask(self, name: str, approval: Approval) -> Decision:
        """`name` is what the client calls the session."""
        try:
            if self._forms and approval.kind is not ApprovalKind.PERMISSION:
                try:
                    return await self._by_form(name, approval)
                except RpcError as error:
                    if isinstance(error, PeerDisconnected):
                        raise
                    _log.warning("the editor shows no form: %s", error.message)
            return await self._by_options(name, approval)
        except RpcError as error:
            # Who has gone, or was told to forget it, has decided nothing.
            if isinstance(error, PeerDisconnected) or error.code == REQUEST_CANCELLED:
                return None
            return Deny(message=f"the editor could not ask: {error.message}")

    # -- by a form

    async def _by_form(self, name: str, approval: Approval) -> Decision:
        plan = approval.kind is ApprovalKind.PLAN
        params = {
            "sessionId": name,
            "mode": "form",
            "message": approval.plan or approval.title,
            "requestedSchema": _plan_form(approval) if plan else _question_form(approval),
        }
        if approval.tool_call_id:
            params["toolCallId"] = approval.tool_call_id
        answer = as_object(await self._peer.request(ELICITATION, params, session_id=name)) or {}
        match answer.get("action"):
            case "accept":
                filled = as_object(answer.get("content")) or {}
                return _planned(approval, filled) if plan else _answered(approval, filled)
            case "decline":
                return Deny(message="declined")
            case _:
                return None

    # -- by choosing between options

    async def _by_options(self, name: str, approval: Approval) -> Decision:
        if approval.kind is ApprovalKind.QUESTION:
            return await self._one_by_one(name, approval)
        options = approval.options or (_ALLOW, _REJECT)
        decision = _decision(approval, options, await self._choose(name, approval, options, approval.title))
        if approval.questions and isinstance(decision, Approve):
            answers = await self._one_by_one(name, approval)
            if isinstance(answers, Approve):
                return Approve(
                    decision=decision.decision, option_id=decision.option_id, answers=answers.answers
                )
            return answers
        return decision

    async def _choose(
        self, name: str, approval: Approval, options: tuple[Option, ...], title: str
    ) -> str | None:
        """The id of the option that was selected; None: the person went away."""
        answer = await self._peer.request(
            PERMISSION, _permission(name, approval, options, title), session_id=name
        )
        outcome = as_object((as_object(answer) or {}).get("outcome")) or {}
        chosen = outcome.get("optionId")
        return chosen if outcome.get("outcome") == "selected" and isinstance(chosen, str) else None

    async def _one_by_one(self, name: str, approval: Approval) -> Decision:
        """Each question as a choice between its answers. What has to be written can only be skipped here."""
        answers: dict[str, list[str]] = {}
        for question in approval.questions:
            options = tuple(
                Option(id=f"farsteer:{number}", name=choice, kind=OptionKind.ALLOW_ONCE)
                for number, choice in enumerate(question.choices)
            )
            skip = _SKIP if options else _ELSEWHERE
            chosen = await self._choose(name, approval, (*options, skip), question.text)
            if chosen is None:
                return None
            picked = [option.name for option in options if option.id == chosen]
            if not picked:
                return Deny(message="skipped")
            answers[question.id] = picked
        return Approve(answers=answers)


def _permission(name: str, approval: Approval, options: tuple[Option, ...], title: str) -> dict[str, Any]:
    call: dict[str, Any] = {
        "toolCallId": approval.tool_call_id or approval.id,
        "title": title,
        "kind": approval.tool_kind.value if approval.tool_kind else "other",
        "status": "pending",
    }
    if approval.arguments is not None:
        call["rawInput"] = approval.arguments
    if approval.plan:
        call["kind"] = "switch_mode"
        call["content"] = [{"type": "content", "content": {"type": "text", "text": approval.plan}}]
    offered = [{"optionId": option.id, "name": option.name, "kind": option.kind.value} for option in options]
    return {"sessionId": name, "toolCall": call, "options": offered}


def _decision(approval: Approval, options: tuple[Option, ...], chosen: str | None) -> Decision:
    if chosen is None:
        return None
    option = next((option for option in options if option.id == chosen), None)
    if option is None:
        # An id that we did not offer is no answer.
        return Deny(message=f"there was no option {chosen!r}")
    option_id = option.id if approval.options else None
    if not option.kind.allows:
        return Deny(option_id=option_id)
    always = option.kind is OptionKind.ALLOW_ALWAYS
    return Approve(decision="approved_for_session" if always else "approved", option_id=option_id)


def _question_form(approval: Approval) -> dict[str, Any]:
    properties = {question.id: _property(question) for question in approval.questions}
    return {"type": "object", "properties": properties, "required": [*properties]}


def _property(question: Question) -> dict[str, Any]:
    if question.multiple and question.choices:
        return {
            "type": "array",
            "title": question.text,
            "minItems": 1,
            "items": {"type": "string", "enum": [*question.choices]},
        }
    found: dict[str, Any] = {"type": "string", "title": question.text}
    if question.choices and not question.free_text:
        found["enum"] = [*question.choices]
    elif question.choices:
        found["description"] = "e.g. " + ", ".join(question.choices)
    return found


def _texts(filled: dict[str, Any], question: Question) -> list[str]:
    value = filled.get(question.id)
    given = cast("list[Any]", value) if isinstance(value, list) else [value]
    return [str(text) for text in given if text not in (None, "")]


def _answered(approval: Approval, filled: dict[str, Any]) -> Decision:
    answers = {question.id: _texts(filled, question) for question in approval.questions}
    return Approve(answers=answers) if all(answers.values()) else Deny(message="not answered")


def _plan_form(approval: Approval) -> dict[str, Any]:
    options = approval.options or (_ALLOW, _REJECT)
    choices = [{"const": option.id, "title": option.name} for option in options]
    return {
        "type": "object",
        "title": approval.title,
        "properties": {
            _DECISION: {"type": "string", "title": approval.title, "oneOf": choices},
            **{question.id: _property(question) for question in approval.questions},
            _COMMENT: {"type": "string", "title": "Comment"},
        },
        "required": [_DECISION],
    }


def _planned(approval: Approval, filled: dict[str, Any]) -> Decision:
    chosen, comment = filled.get(_DECISION), filled.get(_COMMENT)
    said = comment if isinstance(comment, str) and comment else None
    options = approval.options or (_ALLOW, _REJECT)
    decided = _decision(approval, options, chosen if isinstance(chosen, str) else "")
    if isinstance(decided, Approve):
        answers = {
            question.id: texts for question in approval.questions if (texts := _texts(filled, question))
        }
        return Approve(
            decision=decided.decision, option_id=decided.option_id, message=said, answers=answers or None
        )
    return Deny(option_id=decided.option_id if decided else None, message=said or "declined")
