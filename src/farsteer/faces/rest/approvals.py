"""Endpoints for approvals: list them and answer them."""

from __future__ import annotations

from farsteer.core.api import ApprovalAnswered, ApprovalsResponse, Approve, Deny
from farsteer.faces.rest.endpoint import AnyEndpoint, Endpoint, EndpointCall
from farsteer.hub import Scope


async def list_approvals(call: EndpointCall[None, None]) -> ApprovalsResponse:
    return await call.hub.approvals.inbox(call.caller)


async def _answer(call: EndpointCall[Approve, None] | EndpointCall[Deny, None]) -> ApprovalAnswered:
    return await call.hub.approvals.answer(
        call.caller, call.id("sessionId"), call.id("approvalId"), call.body.answer(call.caller.name)
    )


async def approve(call: EndpointCall[Approve, None]) -> ApprovalAnswered:
    return await _answer(call)


async def deny(call: EndpointCall[Deny, None]) -> ApprovalAnswered:
    return await _answer(call)


ENDPOINTS: tuple[AnyEndpoint, ...] = (
    Endpoint(
        method="GET", path="/api/approvals", handler=list_approvals, scope=Scope.READ,
        response=ApprovalsResponse,
        tag="Approvals", summary="List open approvals of all sessions",
    ),
    Endpoint(
        method="POST", path="/api/sessions/{sessionId}/permissions/{approvalId}/approve", handler=approve,
        scope=Scope.APPROVE, body=Approve, body_optional=True, response=ApprovalAnswered, errors=(409, 422, 503),
        tag="Approvals", summary="Approve a request, answer a question or accept a plan",
        description="The first answer wins; a later one gets 409 with the outcome and who gave it. A question "
        "needs `answers`: the chosen texts by question id.",
        example={"decision": "approved_for_session"},
    ),
    Endpoint(
        method="POST", path="/api/sessions/{sessionId}/permissions/{approvalId}/deny", handler=deny,
        scope=Scope.APPROVE, body=Deny, body_optional=True, response=ApprovalAnswered, errors=(409, 422, 503),
        tag="Approvals", summary="Deny a request",
        description="With `decision` `abort` the turn is stopped as well.",
        example={"decision": "denied", "message": "use the staging database"},
    ),
)  # fmt: skip
