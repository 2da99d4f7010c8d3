"""Agents that speak the Agent Client Protocol, as data. Each is one TOML file."""
