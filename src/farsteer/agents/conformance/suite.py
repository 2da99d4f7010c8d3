"""The base of every contract class: turns an async contract into a pytest test, and skips what does not apply."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, ClassVar

import pytest

from farsteer.agents.base import Adapter
from farsteer.agents.conformance.harness import Harness, Prompts
from farsteer.core.errors import NotCapable


class ConformanceSuite:
    """What a test class must provide to run contracts."""

    prompts: ClassVar[Prompts]
    step_timeout: ClassVar[float] = 10.0
    """Seconds that one step of the agent may take."""

    def adapter(self) -> Adapter:
        """Return the adapter under test."""
        raise NotImplementedError("return the adapter under test")

    def new_loop(self) -> asyncio.AbstractEventLoop:
        """Return the event loop to run a contract in."""
        return asyncio.new_event_loop()


Contract = Callable[[Any, Harness], Coroutine[Any, Any, None]]


def contract(check: Contract) -> Callable[[Any, Path], None]:
    """Make a pytest test of an async method that takes a `Harness`.

    The test runs in its own event loop, needs no pytest plugin, and checks the output rules at its end.
    """

    def test(self: ConformanceSuite, tmp_path: Path) -> None:
        with asyncio.Runner(loop_factory=self.new_loop) as runner:
            runner.run(_run(self, check, tmp_path))

    test.__name__, test.__qualname__, test.__doc__ = check.__name__, check.__qualname__, check.__doc__
    return test


async def _run(suite: ConformanceSuite, check: Contract, folder: Path) -> None:
    harness = Harness(suite.adapter(), suite.prompts, folder, suite.step_timeout)
    try:
        await check(suite, harness)
    except BaseException:
        await harness.stop_all()
        raise
    await harness.close()


def require_capabilities(harness: Harness, *capabilities: str) -> None:
    """Skip the contract unless the adapter declares all these capabilities."""
    for capability in capabilities:
        if not getattr(harness.adapter.capabilities, capability):
            pytest.skip(f"the adapter does not declare {capability}")


def require_prompt(prompt: str | None) -> str:
    """Return the prompt, or skip the contract if it is None."""
    if prompt is None:
        pytest.skip("the suite has no prompt for this contract")
    return prompt


@contextmanager
def skip_if_refused() -> Generator[None]:
    """Skip the contract if this version of the agent refuses with `NotCapable`.

    For details of a declared capability that old versions lack.
    """
    try:
        yield
    except NotCapable as refusal:
        pytest.skip(f"this version of the agent refuses: {refusal.message}")
