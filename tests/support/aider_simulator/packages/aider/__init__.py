"""aider, simulated: only what the worker uses, and with aider's own names and order of calls."""
