"""`farsteer usage`: shows tokens and cost."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from shutil import get_terminal_size
from typing import get_args

from farsteer.cli import context
from farsteer.cli.exit_codes import SUCCESS
from farsteer.cli.terminal.text import table
from farsteer.core.api import UsageGroup, UsageGrouping, UsageResponse, UsageTotal
from farsteer.core.text import printable_json

DESCRIPTION = """\
Show the tokens and the cost that the agents have reported. Turns that were
rewound and sessions that were deleted count too. Days are in UTC.
"""

EXAMPLES = """\
  farsteer usage
  farsteer usage --by model --since 2026-11-01
  farsteer usage --by turn --session 3f2a
"""


def usage_command(argv: Sequence[str]) -> int:
    parser = context.command_parser("usage", DESCRIPTION, EXAMPLES)
    context.add_hub_option(parser)
    groupings = get_args(UsageGrouping)
    parser.add_argument(
        "--by",
        choices=groupings,
        metavar="GROUP",
        default="day",
        help=f"one row per {', '.join(groupings)} (default: %(default)s)",
    )
    parser.add_argument("--since", metavar="DAY", help="first day, YYYY-MM-DD (default: the beginning)")
    parser.add_argument("--until", metavar="DAY", help="last day, YYYY-MM-DD (default: today)")
    parser.add_argument("--session", metavar="ID", help="only this session")
    parser.add_argument("--json", action="store_true", help="print the hub's answer as one JSON object")
    return context.run(_print_usage(parser.parse_args(argv)))


async def _print_usage(arguments: argparse.Namespace) -> int:
    async with context.hub_client(arguments) as client:
        session_id = None
        if arguments.session:
            session_id = (await context.find_session(client, arguments.session)).id
        usage = await client.usage(
            since=arguments.since, until=arguments.until, group_by=arguments.by, session_id=session_id
        )
    if arguments.json:
        print(printable_json(usage))
    elif usage.groups:
        print(_table(usage, arguments.by))
    else:
        print("no usage was reported", file=sys.stderr)
    return SUCCESS


def _table(usage: UsageResponse, by: str) -> str:
    header = (by.upper(), "TURNS", "IN", "OUT", "CACHED", "COST")
    rows = [_row(_group_name(group.key, by), group) for group in usage.groups]
    if usage.truncated:
        rows.append(("…", "", "", "", "", ""))
    return table([header, *rows, _row("all", usage.total)], get_terminal_size().columns)


def _group_name(key: str | None, by: str) -> str:
    if key is None:
        return "(deleted)" if by in ("session", "turn") else "(unnamed)"
    return key[:8] if by in ("session", "machine", "turn") else key


def _row(name: str, usage: UsageGroup | UsageTotal) -> tuple[str, ...]:
    cost = f"${usage.cost_usd:.4f}" if usage.cost_usd else ""
    cached = usage.cache_read_tokens + usage.cache_write_tokens
    return (name, str(usage.turns), str(usage.input_tokens), str(usage.output_tokens), str(cached), cost)
