"""Model providers that speak Anthropic's API. Each is one TOML file, and an agent that runs through Claude Code."""
