"""The real agents' CLIs, at pinned versions, offline. See docs/testing-agents.md."""
