"""A person's own arguments for an agent's interface."""

from __future__ import annotations

_SWITCHES = frozenset(
    {
        "--all", "--allow-dangerously-skip-permissions", "--approve-for-me", "--ax-screen-reader", "--brief",
        "--chrome", "--dangerously-bypass-approvals-and-sandbox", "--dangerously-bypass-hook-trust",
        "--dangerously-skip-permissions", "--disable-slash-commands", "--exclude-dynamic-system-prompt-sections",
        "--ide", "--include-non-interactive", "--last", "--no-alt-screen", "--no-chrome", "--no-daemon", "--oss",
        "--restricted", "--search", "--strict-config", "--strict-mcp-config", "--verbose",
    }
)  # fmt: skip
"""Options of the agents' programs that take no value."""
_LISTS = frozenset(
    {
        "--allowedTools", "--allowed-tools", "--betas", "--disallowedTools", "--disallowed-tools", "--file", "--image",
        "--mcp-config", "--tools", "-i",
    }
)  # fmt: skip
"""Options that take all the values up to the next option."""


def without_prompt(arguments: tuple[str, ...]) -> tuple[str, ...]:
    """Return the options among a person's arguments, with their values: not what they want to say to the agent."""
    kept: list[str] = []
    option, takes_value = "", False
    for argument in arguments:
        if argument == "--":
            break
        if argument.startswith("-") and argument != "-":
            kept.append(argument)
            option, takes_value = argument, argument not in _SWITCHES and "=" not in argument
        elif takes_value:
            kept.append(argument)
            takes_value = option in _LISTS
    return tuple(kept)
