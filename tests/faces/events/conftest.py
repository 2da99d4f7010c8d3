"""These tests run on uvloop, as the server does. Delivery is also tested on asyncio's own event loop."""

import asyncio
from collections.abc import Callable

import pytest
import uvloop

Factories = dict[str, Callable[[], asyncio.AbstractEventLoop]]


def pytest_asyncio_loop_factories(config: pytest.Config, item: pytest.Item) -> Factories:
    factories: Factories = {"uvloop": uvloop.new_event_loop}
    if item.path.name in {"test_delivery.py", "test_order.py"}:
        factories["asyncio"] = asyncio.SelectorEventLoop
    return factories
