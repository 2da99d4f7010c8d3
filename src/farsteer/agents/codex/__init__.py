"""OpenAI's Codex, driven through `codex app-server`."""
