"""The adapter for aider: a worker in aider's own environment, and the lines that it speaks."""
