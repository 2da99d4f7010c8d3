"""The models of a Droid: what it says about each when a session is opened, and the list without a session."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress

from farsteer.agents.droid import protocol
from farsteer.agents.droid.cli import ENVIRONMENT
from farsteer.agents.droid.rpc import RpcClient, decode_result
from farsteer.agents.process import AgentProcess, ProcessExit
from farsteer.core.capabilities import unknown_effort, unknown_model
from farsteer.core.droid import Method
from farsteer.core.errors import AgentError, ErrorCode, FarsteerError
from farsteer.core.lines import Line
from farsteer.core.modes import ReasoningEffort
from farsteer.core.wire import WireStruct

TITLE = "Factory Droid"
CUSTOM = "custom:"
"""Begins the names of the owner's own models, which are in a file that can change at any time."""
_NUMBER = re.compile(r"-\d+$")
_LIST_TIMEOUT = 30.0
_WRITE_TIMEOUT = 10.0


class DroidModel(WireStruct):
    id: str
    supported_reasoning_efforts: tuple[str, ...] | None = None


class _Models(WireStruct):
    models: list[DroidModel] = []


class KnownModels:
    """The models that Droid has listed. Before that, anything is accepted: Droid itself refuses nothing."""

    def __init__(self, models: Iterable[DroidModel] = ()) -> None:
        self._models = {model.id: model for model in models}

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(self._models)

    @property
    def efforts(self) -> dict[str, tuple[str, ...]]:
        """The reasoning efforts of each model, where Droid tells them."""
        told = {model.id: model.supported_reasoning_efforts for model in self._models.values()}
        return {name: efforts for name, efforts in told.items() if efforts is not None}

    def knows(self, name: str) -> bool:
        """Whether Droid lists this model, or has listed none."""
        return not self._models or self._find(name) is not None

    def check(self, model: str | None, effort: ReasoningEffort | None, current: str | None) -> None:
        """Raise BadRequest for a model that Droid does not list, or an effort that the model does not have.

        Args:
            model: The wanted model, None if it does not change.
            effort: The wanted effort, None if it does not change.
            current: The model that Droid uses.
        """
        if model is not None and not self.knows(model):
            raise unknown_model(TITLE, model, self._models)
        known = self._find(model or current or "")
        efforts = None if known is None else known.supported_reasoning_efforts
        if effort is not None and known is not None and efforts is not None and effort not in efforts:
            raise unknown_effort(TITLE, known.id, effort, efforts)

    def _find(self, name: str) -> DroidModel | None:
        """Find a model. Droid numbers the owner's own models in one way in its list, and takes both ways."""
        found = self._models.get(name)
        if found is None and name.startswith(CUSTOM):
            title = _NUMBER.sub("", name)
            found = next((one for id, one in self._models.items() if _NUMBER.sub("", id) == title), None)
        return found


async def list_models(argv: Sequence[str], environment: Mapping[str, str]) -> KnownModels:
    """Start Droid, ask it for its models and stop it. None are known if this version tells them only in a session."""
    rpc: RpcClient

    async def write(line: bytes) -> None:
        await process.write(line, _WRITE_TIMEOUT)

    async def handle_lines(lines: list[Line]) -> None:
        for line in lines:
            decoded = protocol.decode_line(line) if isinstance(line, bytes) else None
            if isinstance(decoded, protocol.Response):
                rpc.handle_response(decoded)

    async def handle_exit(ended: ProcessExit) -> None:
        rpc.close(AgentError(f"Droid ended: {ended.reason}", code=ErrorCode.AGENT_DIED))

    rpc = RpcClient(write)
    process = AgentProcess.start(
        argv, cwd="/", environment={**environment, **ENVIRONMENT}, on_lines=handle_lines, on_exit=handle_exit
    )
    try:
        with suppress(FarsteerError, TimeoutError):
            async with asyncio.timeout(_LIST_TIMEOUT):
                result = await rpc.call(Method.LIST_MODELS, {}, _LIST_TIMEOUT, optional=True)
                return KnownModels(decode_result(result, _Models).models)
        return KnownModels()
    finally:
        await process.stop(1.0)
