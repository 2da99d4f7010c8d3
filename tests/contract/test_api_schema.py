"""Random requests: no 5xx, and every answer matches the OpenAPI description."""

import asyncio
import queue
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import schemathesis
from hypothesis import HealthCheck, given, settings
from schemathesis import CheckFunction, GenerationMode
from schemathesis.checks import not_a_server_error
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    ignored_auth,
    positive_data_acceptance,
    response_schema_conformance,
    status_code_conformance,
)

from farsteer.faces.rest.app import TABLE
from farsteer.faces.rest.openapi import document
from tests.support.stack import farsteer

pytestmark = [pytest.mark.slow, pytest.mark.timeout(180)]

SCHEMA = schemathesis.openapi.from_dict(document(TABLE))
OPERATIONS = [SCHEMA[endpoint.path][endpoint.method] for endpoint in TABLE]
# What a schema cannot say: a cursor is one that we gave, we take 5 as an integer, but not 5.0, days do not end before
# they begin, turns are those of a session, and a server of tools has a command or an address.
STRICTER = {
    "GET /api/sessions",
    "DELETE /api/sessions/{sessionId}/messages",
    "POST /api/sessions/{sessionId}/rewind",
    "POST /api/sessions/{sessionId}/fork",
    "GET /api/usage",
    "POST /api/sessions",
    "POST /api/pairings",
    "PUT /api/sessions/{sessionId}/draft",
}
SOUND_ANSWER = [
    not_a_server_error, status_code_conformance, content_type_conformance, response_schema_conformance,
]  # fmt: skip
bounded = settings(
    max_examples=8,
    derandomize=True,
    database=None,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much],
)


@dataclass(frozen=True)
class Known:
    """A server in a thread of its own, and things that exist on it."""

    url: str
    authorization: str
    session_id: str


@pytest.fixture
def known(home: Path) -> Iterator[Known]:
    told: queue.SimpleQueue[Known | BaseException] = queue.SimpleQueue()
    ending: list[Any] = []

    async def live() -> None:
        async with farsteer(home, seconds=300) as stack:
            owner = await stack.sign_in()
            session_id = await stack.create(owner)
            stop = asyncio.Event()
            ending.extend((asyncio.get_running_loop(), stop))
            token = owner.headers["authorization"]
            told.put(Known(stack.url, token, session_id))
            await stop.wait()

    def run() -> None:
        try:
            asyncio.run(live())
        except BaseException as error:
            told.put(error)
            raise

    thread = threading.Thread(target=run)
    thread.start()
    known = told.get(timeout=30)
    assert isinstance(known, Known), known
    yield known
    loop, stop = ending
    loop.call_soon_threadsafe(stop.set)
    thread.join(30)
    assert not thread.is_alive()


def test_a_sound_request_gets_a_promised_answer(known: Known, subtests: pytest.Subtests) -> None:
    for operation in OPERATIONS:
        excluded = [ignored_auth]
        if operation.label in STRICTER:
            excluded.append(positive_data_acceptance)
        with subtests.test(operation.label):
            fuzz(operation, GenerationMode.POSITIVE, known, excluded)


def test_an_unsound_request_gets_a_promised_answer(known: Known, subtests: pytest.Subtests) -> None:
    for operation in OPERATIONS:
        if operation.label != "GET /health":  # nothing of it can be unsound
            with subtests.test(operation.label):
                fuzz(operation, GenerationMode.NEGATIVE, known, [ignored_auth])


def fuzz(
    operation: schemathesis.APIOperation, mode: GenerationMode, known: Known, excluded: list[CheckFunction]
) -> None:
    @bounded
    @given(case=operation.as_strategy(generation_mode=mode))
    def ask(case: schemathesis.Case) -> None:
        headers = {"Authorization": known.authorization}
        case.call_and_validate(base_url=known.url, headers=headers, excluded_checks=excluded)
        if case.path_parameters and "sessionId" in case.path_parameters and case.method != "DELETE":
            case.path_parameters["sessionId"] = known.session_id
            case.call_and_validate(base_url=known.url, headers=headers, checks=SOUND_ANSWER)

    ask()
