"""The exit codes of `farsteer`. Scripts depend on them, so they do not change."""

SUCCESS = 0
FAILURE = 1
USAGE_ERROR = 2
UNREACHABLE = 3
"""No hub, or no machine, could be reached."""
APPROVAL_DENIED = 4
"""`farsteer exec` finished, but denied an approval because nobody was there to answer it."""
INTERRUPTED = 130
"""Ended by Ctrl-C or a signal, as shells report it."""
