"""A path is found by its segments, and its parameters are read from it."""

from __future__ import annotations

from typing import NoReturn

import pytest
from starlette.types import ASGIApp, Receive, Scope, Send

from farsteer.faces.rest.paths import Paths

PATHS = (
    "/",
    "/health",
    "/api/sessions",
    "/api/sessions/{id}",
    "/api/sessions/{id}/queue/{item}",
    "/api/{kind}/all",
)


class Served:
    def __init__(self) -> None:
        self.by: list[tuple[str, dict[str, str]]] = []

    def app(self, name: str) -> ASGIApp:
        async def serve(scope: Scope, receive: Receive, send: Send) -> None:
            self.by.append((name, scope.get("path_params", {})))

        return serve


async def serve(path: str, kind: str = "http") -> tuple[str, dict[str, str]]:
    async def unused(*_: object) -> NoReturn:
        raise AssertionError

    served = Served()
    paths = Paths([(one, served.app(one)) for one in PATHS], served.app("default"))
    await paths({"type": kind, "path": path}, unused, unused)
    [found] = served.by
    return found


@pytest.mark.parametrize(
    ("path", "found", "parameters"),
    [
        ("/", "/", {}),
        ("/health", "/health", {}),
        ("/api/sessions", "/api/sessions", {}),
        ("/api/sessions/a b", "/api/sessions/{id}", {"id": "a b"}),
        ("/api/sessions/1/queue/2", "/api/sessions/{id}/queue/{item}", {"id": "1", "item": "2"}),
        ("/api/machines/all", "/api/{kind}/all", {"kind": "machines"}),
    ],
)
async def test_a_path_is_found_with_its_parameters(path: str, found: str, parameters: dict[str, str]) -> None:
    assert await serve(path) == (found, parameters)


@pytest.mark.parametrize(
    "path",
    [
        "",
        "//",
        "/health/",
        "/Health",
        "/api",
        "/api/",
        "/api/sessions/",
        "/api/sessions/1/queue/",
        "/api/sessions/1/x",
    ],
)
async def test_any_other_path_is_left_to_the_default(path: str) -> None:
    assert (await serve(path))[0] == "default"


async def test_a_websocket_is_left_to_the_default() -> None:
    assert (await serve("/health", "websocket"))[0] == "default"
