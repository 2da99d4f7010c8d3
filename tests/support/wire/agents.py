"""The agents with golden wire files."""

from __future__ import annotations

from tests.support.wire.acp import ACP_AGENTS
from tests.support.wire.agent import WireAgent
from tests.support.wire.claude import CLAUDE
from tests.support.wire.codex import CODEX

AGENTS: dict[str, WireAgent] = {
    **{agent.name: agent for agent in (CLAUDE, CODEX)},
    **ACP_AGENTS,
}
