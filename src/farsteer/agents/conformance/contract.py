"""How a contract becomes a test: an event loop of its own, a stage, the play, and the audit of all that was said."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, ClassVar

import pytest

from farsteer.agents.base import Adapter
from farsteer.agents.conformance.script import Script
from farsteer.agents.conformance.stage import Stage
from farsteer.core.errors import NotCapable


class Conformance:
    """What a suite needs from whoever runs it."""

    script: ClassVar[Script]
    patience: ClassVar[float] = 10.0
    """Seconds that one step of the agent may take."""

    def adapter(self) -> Adapter:
        raise NotImplementedError("say which adapter is to be checked")

    def new_loop(self) -> asyncio.AbstractEventLoop:
        return asyncio.new_event_loop()


Play = Callable[[Any, Stage], Coroutine[Any, Any, None]]


def contract(play: Play) -> Callable[[Any, Path], None]:
    """Make a test of a play. It needs no plugin of pytest, so that it runs in anybody's project."""

    def test(self: Conformance, tmp_path: Path) -> None:
        with asyncio.Runner(loop_factory=self.new_loop) as runner:
            runner.run(_perform(self, play, tmp_path))

    test.__name__, test.__qualname__, test.__doc__ = play.__name__, play.__qualname__, play.__doc__
    return test


async def _perform(suite: Conformance, play: Play, folder: Path) -> None:
    stage = Stage(suite.adapter(), suite.script, folder, suite.patience)
    try:
        await play(suite, stage)
    except BaseException:
        await stage.abandon()
        raise
    await stage.close()


def declared(stage: Stage, *capabilities: str) -> None:
    """Skip a contract that is about what the adapter does not claim to do."""
    for capability in capabilities:
        if not getattr(stage.adapter.capabilities, capability):
            pytest.skip(f"the adapter does not declare {capability}")


@contextmanager
def if_able() -> Generator[None]:
    """Skip a finer point that this version of the agent refuses; that it may refuse, another contract says."""
    try:
        yield
    except NotCapable as refusal:
        pytest.skip(f"this version of the agent refuses: {refusal.message}")


def given(prompt: str | None) -> str:
    """The prompt that a contract needs; without it the contract is skipped."""
    if prompt is None:
        pytest.skip("the script has no prompt for this")
    return prompt
