"""Endpoints for the hub itself: health, metrics and the API documentation."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import fields
from functools import cache
from html import escape
from typing import Any

from starlette.responses import Response

from farsteer import __version__
from farsteer.core.api import Health, LimitsResponse, LimitView
from farsteer.core.wire import encode
from farsteer.faces.rest.endpoint import AnyEndpoint, Endpoint, EndpointCall
from farsteer.hub import Caller, Hub, Scope
from farsteer.hub.auth.caller import HUB_FIGURES
from farsteer.link.messages import PROTOCOL
from farsteer.server.responses import make_response

_STARTED_AT = time.monotonic()
_GAUGES = {"buffered_bytes", "clients", "links"}
_ANY_ADDRESS = "http://hub.invalid"
"""Stands for the address of the hub."""
_METRICS_TYPE = "text/plain; version=0.0.4; charset=utf-8"


async def health(call: EndpointCall[None, None]) -> Health:
    return Health(status="ok", version=__version__, protocol=PROTOCOL, uptime=time.monotonic() - _STARTED_AT)


async def metrics(call: EndpointCall[None, None]) -> Response:
    lines = [*_namespace_metrics(call.hub, call.caller)]
    lines += _limit_metrics((await call.hub.quotas.list(call.caller)).limits)
    if call.caller.manages_hub:
        lines += _hub_metrics(call.hub)
    text = "".join(lines)
    return make_response(text.encode(), headers={"content-type": _METRICS_TYPE})


def _namespace_metrics(hub: Hub, caller: Caller) -> Iterator[str]:
    """What a tenant may know: the figures of its own namespace."""
    yield from _metric("farsteer_namespace_links", "gauge", hub.links.count(caller.namespace))
    yield from _metric("farsteer_namespace_clients", "gauge", hub.presence.count(caller.namespace))


def _limit_metrics(limits: list[LimitView]) -> Iterator[str]:
    """The limits of the caller's namespace, and what is used of them."""
    for name, attribute in (("farsteer_limit", "limit"), ("farsteer_limit_used", "used")):
        yield f"# TYPE {name} gauge\n"
        for one in limits:
            yield f'{name}{{kind="{one.kind}"}} {getattr(one, attribute)}\n'


async def list_limits(call: EndpointCall[None, None]) -> LimitsResponse:
    return await call.hub.quotas.list(call.caller)


def _hub_metrics(hub: Hub) -> Iterator[str]:
    """The figures of all namespaces together and of the process."""
    # Imported on the first scrape, to keep the start of the hub fast.
    import psutil

    for field in fields(hub.metrics):
        value = getattr(hub.metrics, field.name)
        if field.name in _GAUGES:
            yield from _metric(f"farsteer_{field.name}", "gauge", value)
        else:
            yield from _metric(f"farsteer_{field.name}_total", "counter", value)
    process = psutil.Process()
    with process.oneshot():
        cpu = process.cpu_times()
        yield from _metric("process_cpu_seconds_total", "counter", cpu.user + cpu.system)
        yield from _metric("process_resident_memory_bytes", "gauge", process.memory_info().rss)
        yield from _metric("process_open_fds", "gauge", process.num_fds())
        yield from _metric("process_start_time_seconds", "gauge", process.create_time())


def _metric(name: str, kind: str, value: float) -> Iterator[str]:
    yield f"# TYPE {name} {kind}\n{name} {value}\n"


ENDPOINTS: tuple[AnyEndpoint, ...] = (
    Endpoint(
        method="GET", path="/api/limits", handler=list_limits, scope=Scope.READ,
        response=LimitsResponse,
        tag="System", summary="List the limits of the namespace",
        description="With what is used of each. The owner of the hub sets them in `hub.toml`.",
    ),
    Endpoint(
        method="GET", path="/health", handler=health, scope=None,
        response=Health,
        tag="System", summary="Check that the hub is running",
    ),
    Endpoint(
        method="GET", path="/metrics", handler=metrics, scope=Scope.READ, also=(HUB_FIGURES,),
        accepts_access_token=True,
        response=None, media_type="text/plain", errors=(429,),
        tag="System", summary="Get metrics in the Prometheus text format",
        description="Accepts an access token as bearer token too, so that a scraper needs no JWT. A tenant gets "
        "the figures of its own namespace.",
    ),
)  # fmt: skip


def document_endpoints(table: tuple[AnyEndpoint, ...]) -> tuple[AnyEndpoint, ...]:
    """Return the endpoints of the documentation, which is made from `table` on the first request.

    What is made is the same for everybody but for the address of the hub: each client sees the one that it uses.
    """

    @cache
    def openapi() -> dict[str, Any]:
        from farsteer.faces.rest.openapi import document

        return document(table)

    @cache
    def asyncapi() -> dict[str, Any]:
        from farsteer.faces.rest.asyncapi import document

        return document(_ANY_ADDRESS)

    @cache
    def page() -> tuple[str, dict[str, str]]:
        from farsteer.faces.rest.docs_page import CSP, render
        from farsteer.faces.rest.openapi import servers

        headers = {"content-type": "text/html; charset=utf-8", "content-security-policy": CSP}
        return render({**openapi(), "servers": servers(_ANY_ADDRESS)}), headers

    async def get_openapi(call: EndpointCall[None, None]) -> bytes:
        from farsteer.faces.rest.openapi import servers

        return encode({**openapi(), "servers": servers(call.hub_address)})

    async def get_asyncapi(call: EndpointCall[None, None]) -> bytes:
        from farsteer.faces.rest.asyncapi import servers

        return encode({**asyncapi(), "servers": servers(call.hub_address)})

    async def get_docs(call: EndpointCall[None, None]) -> Response:
        body, headers = page()
        return make_response(body.replace(_ANY_ADDRESS, escape(call.hub_address)).encode(), headers=headers)

    return (
        Endpoint(
            method="GET", path="/openapi.json", handler=get_openapi, scope=None, response=None,
            tag="System", summary="Get the OpenAPI document",
        ),
        Endpoint(
            method="GET", path="/asyncapi.json", handler=get_asyncapi, scope=None, response=None,
            tag="System", summary="Get the AsyncAPI document of the live events",
        ),
        Endpoint(
            method="GET", path="/docs", handler=get_docs, scope=None, response=None, media_type="text/html",
            tag="System", summary="Get the API documentation as a page",
        ),
    )  # fmt: skip
