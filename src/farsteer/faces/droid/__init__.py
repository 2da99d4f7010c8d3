"""Droid's `stream-jsonrpc` as a face: a program written for Droid steers any agent.

`dialect`, `wire`, `notes` and `params` are the vocabulary; `tools`, `modes`, `asking` and `transcript` translate; a
`Teller` turns one session's log into notifications, and `Server` answers requests.
"""
