"""Runs an agent's process: pipes, line splitting, environment, process group and cleanup."""

from farsteer.agents.process.process import AgentProcess, OnExit, OnLines, ProcessExit

__all__ = ["AgentProcess", "OnExit", "OnLines", "ProcessExit"]
