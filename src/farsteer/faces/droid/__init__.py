"""Answers like Droid's `stream-jsonrpc`, so that a program written for Droid can use any agent. See docs/droid.md.

`protocol` and `params` define the lines. `tools`, `approvals` and `transcript` translate our vocabulary into Droid's;
`notifications` orders the result. `server` reads requests, `methods` handles them, `sessions` finds the session each is
about, and `attached_session` is the one that the client is in.
"""
