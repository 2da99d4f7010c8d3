"""The demo agent: a separate process that needs no API key and no network and behaves deterministically.

`adapter`, `launch` and `protocol` run in the runner. All other modules run in the agent's process; they import only the
standard library and `farsteer.core.modes`, so that the process is ready in a few hundredths of a second.
"""


def help_text() -> str:
    """Return the list of everything that can be typed to the demo agent."""
    from farsteer.agents.demo.commands import COMMANDS

    return COMMANDS.help_text()
