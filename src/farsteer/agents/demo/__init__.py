"""The demo agent: a process of its own that needs no key and no network and always does the same.

The modules that run inside that process import the standard library and `farsteer.core.modes` only, so that it is
ready in a few hundredths of a second; `adapter`, `launch`, `protocol` and `conversations` are our side of the pipe.
"""


def help_text() -> str:
    """What one can type to the demo agent."""
    from farsteer.agents.demo.repertoire import COMMANDS

    return COMMANDS.help()
