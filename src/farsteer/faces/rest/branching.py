"""Going back in a conversation, and going two ways from one."""

from __future__ import annotations

from starlette.responses import Response

from farsteer.core.api import ForkSession, RewindSession, SessionCreated, SessionNotCreated, SessionRewound
from farsteer.faces.rest.endpoint import AnyEndpoint, Call, Endpoint
from farsteer.faces.rest.sessions import KEY, idempotency_key, not_created
from farsteer.hub import Scope
from farsteer.server.responses import reply


async def rewind_session(call: Call[RewindSession, None]) -> SessionRewound:
    return await call.hub.rewinds.rewind(call.caller, call.id("sessionId"), call.body)


async def fork_session(call: Call[ForkSession, None]) -> Response:
    key = idempotency_key(call.request)
    forked = await call.hub.forks.fork(call.caller, call.id("sessionId"), call.body, idempotency_key=key)
    return reply(forked.body, forked.status)


ENDPOINTS: tuple[AnyEndpoint, ...] = (
    Endpoint(
        method="POST", path="/api/sessions/{sessionId}/rewind", handler=rewind_session, scope=Scope.WRITE,
        body=RewindSession, response=SessionRewound, errors=(409, 422, 503),
        tag="Sessions", summary="Go on from before a message",
        description="`seq` is that of a `user_message`. It and all that follows leave the conversation, for the agent "
        "too; a running turn is interrupted, and what waits in the queue is cancelled. The text comes back, to be "
        "written anew. Files become what they were where the agent keeps copies (`files` says what became of them), "
        "unless `restoreFiles` is false. 422 `not_capable` for an agent that cannot go back.",
        example={"seq": 17, "restoreFiles": True},
    ),
    Endpoint(
        method="POST", path="/api/sessions/{sessionId}/fork", handler=fork_session, scope=Scope.WRITE,
        body=ForkSession, body_optional=True, response=SessionCreated, errors=(409, 422, 503),
        failure=not_created, failure_shape=SessionNotCreated,
        headers={"Idempotency-Key": {"type": "string", "pattern": KEY}},
        tag="Sessions", summary="Begin a new session with this one's conversation",
        description="Up to before the `user_message` at `seq`, up to and with any other entry, or all of it. The new "
        "session has its own copy, for people and for the agent; this one stays as it is. 409 while the agent has no "
        "conversation yet, 422 `not_capable` for an agent that cannot fork.",
        example={"seq": 17, "title": "the other way"},
    ),
)  # fmt: skip
