"""Factory's Droid, driven over its `stream-jsonrpc`.

`wire` and `notes` are its lines, `rpc` our requests, `translator` (with `toolbox`, `notices`, `usage`, `history`) turns
what it tells into our events, `ending` says when a turn is over, `asking` and `approvals` bring its questions to
people, `settings` keeps modes, model and effort true, `opening` begins and resumes, `launch` joins them.
"""
