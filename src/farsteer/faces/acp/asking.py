"""What only a person can answer, put to the person at the editor. No answer, and no way to ask, never mean yes."""

from __future__ import annotations

from typing import Any, cast

from farsteer.core.api import Approve, Deny
from farsteer.core.approvals import Approval, ApprovalKind, Option, OptionKind, Question
from farsteer.rpc.errors import RpcError
from farsteer.rpc.messages import fields
from farsteer.rpc.peer import Peer

PERMISSION = "session/request_permission"
ELICITATION = "elicitation/create"

_SKIP = Option(id="farsteer:skip", name="Skip", kind=OptionKind.REJECT_ONCE)
_DECISION, _COMMENT = "decision", "comment"

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
            match approval.kind:
                case ApprovalKind.QUESTION if self._forms:
                    return _answers(approval, await self._form(name, approval, _questions(approval)))
                case ApprovalKind.QUESTION:
                    return await self._one_by_one(name, approval)
                case ApprovalKind.PLAN if self._forms:
                    return _plan_decision(approval, await self._form(name, approval, _plan_form(approval)))
                case _:
                    return _decision(
                        approval, await self._choose(name, approval, approval.options, approval.title)
                    )
        except RpcError as error:
            return Deny(message=f"the editor could not ask: {error.message}")

    async def _choose(
        self, name: str, approval: Approval, options: tuple[Option, ...], title: str
    ) -> str | None:
        """The id of the option that was selected; None: the person went away."""
        answer = await self._peer.ask(PERMISSION, _permission(name, approval, options, title), session=name)
        outcome = fields((fields(answer) or {}).get("outcome")) or {}
        chosen = outcome.get("optionId")
        return chosen if outcome.get("outcome") == "selected" and isinstance(chosen, str) else None

    async def _form(self, name: str, approval: Approval, schema: dict[str, Any]) -> dict[str, Any] | None:
        """What was filled in; None: nothing was, and it says `declined` if that was the answer."""
        params = {
            "sessionId": name,
            "mode": "form",
            "message": approval.plan or approval.title,
            "requestedSchema": schema,
        }
        if approval.tool_call_id:
            params["toolCallId"] = approval.tool_call_id
        answer = fields(await self._peer.ask(ELICITATION, params, session=name)) or {}
        match answer.get("action"):
            case "accept":
                return fields(answer.get("content")) or {}
            case "decline":
                return {_DECISION: None}
            case _:
                return None

    async def _one_by_one(self, name: str, approval: Approval) -> Decision:
        """Each question as a choice between its answers. What has to be written cannot be asked this way."""
        answers: dict[str, list[str]] = {}
        for question in approval.questions:
            if not question.choices:
                return Deny(message="this editor cannot ask for a text")
            options = tuple(
                Option(id=f"farsteer:{number}", name=choice, kind=OptionKind.ALLOW_ONCE)
                for number, choice in enumerate(question.choices)
            )
            chosen = await self._choose(name, approval, (*options, _SKIP), question.text)
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


def _decision(approval: Approval, chosen: str | None) -> Decision:
    option = next((option for option in approval.options if option.id == chosen), None)
    if option is None:
        # An id that we did not offer is no answer.
        return None if chosen is None else Deny(message=f"there was no option {chosen!r}")
    if not option.kind.allows:
        return Deny(option_id=option.id)
    always = option.kind is OptionKind.ALLOW_ALWAYS
    return Approve(decision="approved_for_session" if always else "approved", option_id=option.id)


def _questions(approval: Approval) -> dict[str, Any]:
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


def _answers(approval: Approval, filled: dict[str, Any] | None) -> Decision:
    if filled is None:
        return None
    answers: dict[str, list[str]] = {}
    for question in approval.questions:
        value = filled.get(question.id)
        given = cast("list[Any]", value) if isinstance(value, list) else [value]
        texts = [str(text) for text in given if text not in (None, "")]
        if not texts:
            return Deny(message="not answered")
        answers[question.id] = texts
    return Approve(answers=answers)


def _plan_form(approval: Approval) -> dict[str, Any]:
    choices = [{"const": option.id, "title": option.name} for option in approval.options]
    return {
        "type": "object",
        "title": approval.title,
        "properties": {
            _DECISION: {"type": "string", "title": "What shall happen?", "oneOf": choices},
            _COMMENT: {"type": "string", "title": "Comment"},
        },
        "required": [_DECISION],
    }


def _plan_decision(approval: Approval, filled: dict[str, Any] | None) -> Decision:
    if filled is None:
        return None
    chosen, comment = filled.get(_DECISION), filled.get(_COMMENT)
    said = comment if isinstance(comment, str) and comment else None
    decided = _decision(approval, chosen if isinstance(chosen, str) else "")
    match decided:
        case Approve():
            return Approve(decision=decided.decision, option_id=decided.option_id, message=said)
        case Deny():
            return Deny(option_id=decided.option_id, message=said or decided.message)
        case None:
            return Deny(message=said or "declined")
