"""These tests run on uvloop, as the server does, and what depends on the loop on asyncio's own too."""

import asyncio
from collections.abc import Callable

import pytest
import uvloop

Factories = dict[str, Callable[[], asyncio.AbstractEventLoop]]


def pytest_asyncio_loop_factories(config: pytest.Config, item: pytest.Item) -> Factories:
    factories: Factories = {"uvloop": uvloop.new_event_loop}
    if item.path.name == "test_hostile_requests.py":
        factories["asyncio"] = asyncio.SelectorEventLoop
    return factories
