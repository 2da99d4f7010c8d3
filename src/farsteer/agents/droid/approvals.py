"""What Droid asks a person, as approvals, and a person's answer in the shape that Droid takes."""

from __future__ import annotations

from typing import Any, cast

import msgspec

from farsteer.agents.droid import wire
from farsteer.agents.droid.notes import ToolUse
from farsteer.agents.droid.tools import kind_of, title_of
from farsteer.core.approvals import Answer, Approval, ApprovalKind, Option, OptionKind, Question
from farsteer.core.clock import now_ms
from farsteer.core.errors import BadRequest
from farsteer.core.ids import is_uuid, new_id
from farsteer.core.modes import ToolKind
from farsteer.core.wire import WireStruct

ALLOW = "proceed_once"
ALWAYS = "proceed_always"
EDITED = "proceed_edit"
NEW_SESSION = "proceed_new_session"
CANCEL = "cancel"
PLAN = "plan"
"""Where an answer may carry the plan as the person has edited it: `answers["plan"]`."""
CHOICE = "choice"
"""Which of several plans the person chose: `answers["choice"]`."""

_PLANS = {"exit_spec_mode": "Plan", "propose_mission": "Mission"}
_ONCE = (ALLOW, EDITED, NEW_SESSION)


class Choice(WireStruct):
    value: str
    label: str = ""


class Confirmation(WireStruct):
    tool_use: ToolUse
    confirmation_type: str = ""
    details: Any = None


class PermissionParams(WireStruct):
    tool_uses: list[Confirmation]
    options: list[Choice] = []


class AskedQuestion(WireStruct):
    index: int
    question: str
    topic: str = ""
    options: list[str] = []
    multi_select: bool | None = None


class AskParams(WireStruct):
    questions: list[AskedQuestion]
    tool_call_id: str | None = None


def permission(request: wire.Request, turn_id: str | None) -> Approval:
    """Raises msgspec.ValidationError."""
    params = msgspec.json.decode(request.params, type=PermissionParams)
    if not params.tool_uses:
        raise msgspec.ValidationError("a permission for no tool")
    first = params.tool_uses[0]
    use, details, kind = first.tool_use, _details(first), first.confirmation_type
    plan = details.get("plan") or details.get("proposal") or use.input.get("plan")
    # The newer CLI drops the names from the details and leaves them in the input.
    listed = use.input.get("optionNames") or details.get("optionNames")
    names = [str(name) for name in cast("list[Any]", listed)] if isinstance(listed, list) else []
    is_plan = kind in _PLANS
    title = str(details.get("title") or use.input.get("title") or _PLANS[kind]) if is_plan else _title(first)
    if len(params.tool_uses) > 1:
        title += f" and {len(params.tool_uses) - 1} more"
    meta: dict[str, Any] = {"confirmationType": kind, "details": details}
    if len(params.tool_uses) > 1:
        meta["toolUses"] = msgspec.to_builtins(params.tool_uses)
    if names:
        meta["optionNames"] = names
    raised = _impact(kind, details)
    if raised is not None and any(choice.value == ALWAYS for choice in params.options):
        meta["alwaysRaisesAutonomyTo"] = raised
    return Approval(
        id=_approval_id(request), kind=ApprovalKind.PLAN if is_plan else ApprovalKind.PERMISSION, title=title,
        created_at=now_ms(), turn_id=turn_id, tool_call_id=use.id, tool=use.name,
        tool_kind=ToolKind.SWITCH_MODE if is_plan else kind_of(use.name), arguments=use.input,
        options=tuple(_option(choice, raised) for choice in params.options),
        questions=(Question(id=CHOICE, text="Which plan?", choices=tuple(names)),) if is_plan and names else (),
        plan=str(plan) if is_plan and plan is not None else None, meta=meta,
    )  # fmt: skip


def questions(request: wire.Request, turn_id: str | None) -> Approval:
    """Raises msgspec.ValidationError."""
    params = msgspec.json.decode(request.params, type=AskParams)
    asked = [
        Question(
            id=str(question.index), text=question.question, choices=tuple(question.options),
            multiple=bool(question.multi_select), free_text=True,
        )
        for question in params.questions
    ]  # fmt: skip
    if not asked:
        raise msgspec.ValidationError("a questionnaire without a question")
    topics = {str(question.index): question.topic for question in params.questions if question.topic}
    return Approval(
        id=_approval_id(request), kind=ApprovalKind.QUESTION, title=asked[0].text, created_at=now_ms(),
        turn_id=turn_id, tool_call_id=params.tool_call_id, tool="AskUser", tool_kind=ToolKind.OTHER,
        questions=tuple(asked), meta={"topics": topics} if topics else None,
    )  # fmt: skip


def reply(approval: Approval, answer: Answer) -> dict[str, Any]:
    """The result Droid takes for `answer`, which has passed `check_answer`. Raises BadRequest."""
    if approval.kind is ApprovalKind.QUESTION:
        return _answers(approval, answer)
    selected = answer.option_id or (ALLOW if answer.outcome.allows else CANCEL)
    result: dict[str, Any] = {"selectedOption": selected}
    given = answer.answers or {}
    edited = "\n".join(given.get(PLAN, []))
    if edited and answer.outcome.allows:
        result["editedSpecContent"] = edited
    elif selected == EDITED:
        raise BadRequest("the edited plan is missing: send it as answers.plan")
    chosen = ", ".join(given.get(CHOICE, []))
    comment = "\n".join(
        part for part in (f"Use this plan: {chosen}" if chosen else "", answer.message) if part
    )
    if comment:
        result["comment"] = comment
    return result


def _answers(approval: Approval, answer: Answer) -> dict[str, Any]:
    if not answer.outcome.allows:
        # Without the empty list Droid takes it for a broken answer and lets the model go on.
        return {"cancelled": True, "answers": []}
    given = answer.answers or {}
    return {
        "cancelled": False,
        "answers": [
            {
                "index": int(question.id),
                "question": question.text,
                "answer": ", ".join(given.get(question.id, [])),
            }
            for question in approval.questions
        ],
    }


def _details(first: Confirmation) -> dict[str, Any]:
    return cast("dict[str, Any]", first.details) if isinstance(first.details, dict) else {}


def _title(first: Confirmation) -> str:
    details = _details(first)
    if first.confirmation_type == "sandbox_violation":
        return (
            f"{details.get('violatingToolName') or first.tool_use.name}: {details.get('reason') or 'sandbox'}"
        )
    if first.confirmation_type == "droid_shield_violation":
        return f"{details.get('command') or first.tool_use.name}: {details.get('reason') or 'Droid Shield'}"
    return title_of(first.tool_use)


def _impact(kind: str, details: dict[str, Any]) -> str | None:
    """The level that "always" lifts the whole session to."""
    if kind in ("create", "edit", "apply_patch"):
        return "low"
    level = details.get("impactLevel")
    return level if isinstance(level, str) else None


def _option(choice: Choice, raised: str | None) -> Option:
    value, name = choice.value, choice.label or choice.value
    if value == ALWAYS:
        name += (
            f": raises the autonomy of the whole session to {raised}" if raised else ": for the whole session"
        )
    if value == CANCEL:
        kind = OptionKind.REJECT_ONCE
    elif value in _ONCE:
        kind = OptionKind.ALLOW_ONCE
    else:
        # Never chosen for a person who only said yes.
        kind = OptionKind.ALLOW_ALWAYS
    return Option(id=value, name=name, kind=kind)


def _approval_id(request: wire.Request) -> str:
    return request.id if isinstance(request.id, str) and is_uuid(request.id) else new_id()
