"""Drives Factory's Droid CLI over its `stream-jsonrpc` protocol. See docs/droid.md.

`launch` runs one process: `session_start` opens its session, `rpc` sends requests, `dispatcher` handles the lines that
Droid writes. `translator` turns notifications into events (with `tool_calls`, `transcripts` and `usage`), `approvals`
asks people, `settings` keeps mode, model and effort in step, `turn_completion` decides when a turn is over.
"""
