"""The hub itself: is it well, and how busy."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import fields

from starlette.responses import Response

from farsteer import __version__
from farsteer.core.api import Health
from farsteer.faces.rest.endpoint import AnyEndpoint, Call, Endpoint
from farsteer.hub import Hub, Scope
from farsteer.link.messages import PROTOCOL
from farsteer.server.responses import reply

_STARTED = time.monotonic()
_GAUGES = {"clients", "links"}
_METRICS_TYPE = "text/plain; version=0.0.4; charset=utf-8"


async def health(call: Call[None, None]) -> Health:
    return Health(status="ok", version=__version__, protocol=PROTOCOL, uptime=time.monotonic() - _STARTED)


async def metrics(call: Call[None, None]) -> Response:
    text = "".join(_lines(call.hub))
    return reply(text.encode(), headers={"content-type": _METRICS_TYPE})


def _lines(hub: Hub) -> Iterator[str]:
    # Loaded on the first scrape: a hub that nobody measures starts without it.
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
        method="GET", path="/health", handler=health, scope=None,
        response=Health,
        tag="System", summary="Say that the hub is up",
    ),
    Endpoint(
        method="GET", path="/metrics", handler=metrics, scope=Scope.READ, access_token=True,
        response=None, media_type="text/plain", errors=(429,),
        tag="System", summary="Counters for Prometheus",
        description="Takes an access token as bearer too, so that a scraper needs no sign-in.",
    ),
)  # fmt: skip
