"""The adapter for a model provider: Claude Code with the models of the provider."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

from msgspec.structs import replace

from farsteer.agents.base import Launch, LaunchPlan, Sink, Terminal
from farsteer.agents.claude import cli
from farsteer.agents.claude.adapter import ClaudeAdapter
from farsteer.agents.process.environment import without_variables
from farsteer.agents.providers.keys import read_key
from farsteer.agents.providers.provider import Provider
from farsteer.core.errors import AgentError, ErrorCode, FarsteerError


class ProviderAdapter(ClaudeAdapter):
    """Claude Code with another environment: nothing that the runner's environment says about models is passed on.

    Args:
        name: The name of the provider and of the agent.
        home: The home directory of the runner, which has the stored keys.
    """

    signs_as_anthropic = False

    def __init__(self, name: str, provider: Provider, home: Path, executable: str | None = None) -> None:
        super().__init__(executable)
        self.name = name
        self.title = provider.title
        self.environment_names = (*cli.GENERAL_VARIABLES, provider.key_variable)
        options = (*cli.CAPABILITIES.options, *([provider.model_option] if provider.model_option else []))
        # The conversations of Claude Code are listed and imported as those of `claude`.
        self.capabilities = replace(cli.CAPABILITIES, import_history=False, options=options)
        self._provider = provider
        self._home = home
        self.models = tuple(dict.fromkeys((provider.model, *provider.models)))

    async def start(self, plan: LaunchPlan, sink: Sink) -> Launch:
        return await super().start(self._with_provider(plan), sink)

    async def start_in_terminal(self, plan: LaunchPlan, sink: Sink, terminal: Terminal) -> Launch:
        # The environment of a terminal is its owner's, with all that it says about models.
        own = without_variables(plan.environment, cli.MODEL_VARIABLES, keep=cli.GENERAL_VARIABLES)
        return await super().start_in_terminal(
            self._with_provider(replace(plan, environment=own)), sink, terminal
        )

    def _with_provider(self, plan: LaunchPlan) -> LaunchPlan:
        """Return the plan with the provider's variables. Raises AgentError if there is no key."""
        own = dict(plan.environment)
        key = own.pop(self._provider.key_variable, None) or read_key(self._home, self.name)
        if key is None:
            raise AgentError(
                f"there is no key of {self.title}: {self._login_command}", code=ErrorCode.AGENT_START_FAILED
            )
        option = self._provider.model_option
        model = plan.model or (plan.options.get(option) if option else None)
        return replace(plan, environment={**own, **self._provider.environment(key, model)})

    async def _login_hint(self) -> str | None:
        if os.environ.get(self._provider.key_variable):
            return None
        try:
            return self._login_command if read_key(self._home, self.name) is None else None
        except FarsteerError as error:
            return f"{error.message}; {self._login_command}"

    @property
    def _login_command(self) -> str:
        return f"farsteer agents login {self.name}"

    def set_models(
        self, models: tuple[str, ...], efforts: Mapping[str, tuple[str, ...]] | None = None
    ) -> None:
        """Claude Code lists Anthropic's models, which the provider does not have."""
