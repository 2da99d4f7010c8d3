"""The adapter for Anthropic's Claude Code, driven by stream-json with control requests."""
