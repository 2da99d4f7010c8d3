"""The documents of the API, made from the table when first asked for: one for programs, one for people."""

from __future__ import annotations

from functools import cache

import msgspec
from starlette.responses import Response

from farsteer.core.wire import encode
from farsteer.faces.rest.endpoint import AnyEndpoint, Call, Endpoint
from farsteer.server.responses import reply


def document_endpoints(table: tuple[AnyEndpoint, ...]) -> tuple[AnyEndpoint, ...]:
    @cache
    def openapi() -> bytes:
        from farsteer.faces.rest.openapi import document

        return encode(document(table))

    @cache
    def page() -> tuple[bytes, dict[str, str]]:
        from farsteer.faces.rest.page import CSP, render

        headers = {"content-type": "text/html; charset=utf-8", "content-security-policy": CSP}
        return render(msgspec.json.decode(openapi())).encode(), headers

    async def get_openapi(call: Call[None, None]) -> bytes:
        return openapi()

    async def get_docs(call: Call[None, None]) -> Response:
        body, headers = page()
        return reply(body, headers=headers)

    async def get_root(call: Call[None, None]) -> Response:
        return reply(b"", 307, {"location": "/docs"})

    return (
        Endpoint(
            method="GET", path="/openapi.json", handler=get_openapi, scope=None, response=None,
            tag="System", summary="The OpenAPI document",
        ),
        Endpoint(
            method="GET", path="/docs", handler=get_docs, scope=None, response=None, media_type="text/html",
            tag="System", summary="The API as a page",
        ),
        Endpoint(
            method="GET", path="/", handler=get_root, scope=None, response=None, status=307,
            tag="System", summary="Where to start",
        ),
    )  # fmt: skip
