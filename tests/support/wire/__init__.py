"""Golden wire files: exchanges with the real CLIs, recorded once and replayed in every test run.

A scenario (`claude`, `codex`) is a coroutine that acts on launches. `python -m tests.vendor.record` runs the scenarios
with the real CLI and writes what adapter and agent say to each other to `tests/agents/AGENT/transcripts`. `replay` runs
the same scenario with a player in the place of the process: it checks what the adapter writes and gives it what the
agent answered. What the adapter makes of it is compared with `tests/agents/AGENT/golden`.
"""
