"""Valid requests of the REST API with mutated bodies, paths and queries."""

from __future__ import annotations

import re
from urllib.parse import quote

import httpx

from tests.fuzz.attack import Attack
from tests.fuzz.corpus import rest_requests

_REQUESTS = 10


async def play(attack: Attack) -> None:
    mutator, target = attack.mutator, attack.target
    for _ in range(_REQUESTS):
        method, path, body = mutator.pick(
            rest_requests(target, mutator.pick(target.sessions), mutator.uuid())
        )
        content = None
        if body is not None or mutator.chance(0.05):
            content = mutator.message(body)
        if mutator.chance(0.3):
            path = _mutate_path(attack, path)
        headers = {"authorization": f"Bearer {await target.jwt()}", "content-type": "application/json"}
        if mutator.chance(0.1):
            headers["idempotency-key"] = mutator.pick(("k", "", "x" * 300, "a b"))
        attack.sent(f"{method} {path}\n".encode() + (content or b""))
        try:
            answer = await target.http.request(method, path, content=content, headers=headers)
        except httpx.HTTPError as error:
            raise attack.fail(f"{method} {path[:200]} was not answered: {error!r}") from error
        except httpx.InvalidURL:
            continue
        check_answer(attack, answer)


def check_answer(attack: Attack, answer: httpx.Response) -> None:
    """An error has a code, and it is never `internal`."""
    if answer.status_code == 500 or '"internal"' in answer.text[:2000]:
        raise attack.fail(
            f"{answer.request.method} {answer.request.url}: {answer.status_code} {answer.text[:500]}"
        )
    if answer.status_code >= 400 and '"code"' not in answer.text:
        raise attack.fail(
            f"{answer.request.method} {answer.request.url}: an error without a code: {answer.text[:500]}"
        )


def _mutate_path(attack: Attack, path: str) -> str:
    mutator = attack.mutator
    odd = quote(mutator.text()[:2000].encode("utf-8", "replace"), safe="")
    if "=" in path and mutator.chance(0.7):
        return re.sub(r"=[^&]*", lambda found: f"={odd}" if mutator.chance(0.6) else found[0], path)
    parts = path.split("/")
    at = mutator.random.randrange(1, len(parts))
    parts[at] = odd
    return "/".join(parts)
