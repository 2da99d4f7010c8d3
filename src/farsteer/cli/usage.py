"""`farsteer usage`: what was spent."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from shutil import get_terminal_size
from typing import get_args

from farsteer.cli import context
from farsteer.cli.main import DONE
from farsteer.cli.text import clean, table
from farsteer.core.api import UsageGroup, UsageGrouping, UsageResponse, UsageTotal
from farsteer.core.wire import encode

ABOUT = """\
Tokens and cost, as the agents report them. What was rewound or deleted was spent
all the same. Days are in UTC.
"""

EXAMPLES = """\
  farsteer usage
  farsteer usage --by model --since 2026-11-01
  farsteer usage --by turn --session 3f2a
"""


def main(argv: Sequence[str]) -> int:
    parser = context.command("usage", ABOUT, EXAMPLES)
    context.add_hub(parser)
    groupings = get_args(UsageGrouping)
    parser.add_argument(
        "--by",
        choices=groupings,
        metavar="WHAT",
        default="day",
        help=f"one of {', '.join(groupings)} (default: day)",
    )
    parser.add_argument("--since", metavar="DAY", help="from this day on, YYYY-MM-DD")
    parser.add_argument("--until", metavar="DAY", help="up to and with this day")
    parser.add_argument("--session", metavar="ID", help="of one session")
    parser.add_argument("--json", action="store_true", help="the whole answer as JSON")
    return context.run(_run(parser.parse_args(argv)))


async def _run(arguments: argparse.Namespace) -> int:
    async with context.client(arguments) as client:
        session_id = None
        if arguments.session:
            session_id = (await context.find_session(client, arguments.session)).id
        found = await client.usage(
            since=arguments.since, until=arguments.until, group_by=arguments.by, session_id=session_id
        )
    if arguments.json:
        print(encode(found).decode())
    elif found.groups:
        print(_table(found, arguments.by))
    else:
        print("nothing was used, or no agent said so", file=sys.stderr)
    return DONE


def _table(found: UsageResponse, by: str) -> str:
    header = (by.upper(), "TURNS", "IN", "OUT", "CACHED", "COST")
    rows = [_row(_name(group.key, by), group) for group in found.groups]
    if found.truncated:
        rows.append(("…", "", "", "", "", ""))
    return table([header, *rows, _row("all", found.total)], get_terminal_size().columns)


def _name(key: str | None, by: str) -> str:
    if key is None:
        return "(deleted)" if by in ("session", "turn") else "(unnamed)"
    return clean(key)[:8] if by in ("session", "machine", "turn") else clean(key)


def _row(name: str, used: UsageGroup | UsageTotal) -> tuple[str, ...]:
    cost = f"${used.cost_usd:.4f}" if used.cost_usd else ""
    cached = used.cache_read_tokens + used.cache_write_tokens
    return (name, str(used.turns), str(used.input_tokens), str(used.output_tokens), str(cached), cost)
