"""Every event, in order, once: over every transport, with real clients, also while they change transports."""

import asyncio

import pytest

from tests.faces.realtime.clients import CLIENTS, TRANSPORTS
from tests.faces.realtime.fake_hub import FakeHub
from tests.faces.realtime.serving import serving


@pytest.mark.parametrize("transport", TRANSPORTS)
@pytest.mark.parametrize("client", CLIENTS)
async def test_a_client_hears_everything_once_and_in_order(client: str, transport: str) -> None:
    fake = FakeHub()
    async with (
        serving(fake.hub) as (_, url),
        CLIENTS[client](url, transport, {"token": fake.tokens.issue()}) as heard,
    ):
        ready = await heard.until("ready")
        assert ready["resume"] == "none"
        for number in range(0, 600, 3):
            fake.publish(number, number + 1, number + 2)
            await asyncio.sleep(0)
        fake.publish(600)
        assert await heard.until_number(600) == list(range(601))
