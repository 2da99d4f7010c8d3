"""docs/agents.md: what each agent can do, as a table whose cells come from runs.

A test observes an agent and passes what it saw to `check_column`, which compares it with the page. With the environment
variable UPDATE_TABLES=1 the column is written instead (`make agents-table`).
"""

from __future__ import annotations

import fcntl
import os
from collections.abc import Mapping
from pathlib import Path

from farsteer.core.capabilities import Capabilities
from farsteer.core.wire import to_builtins

PAGE = Path(__file__).parents[2] / "docs" / "agents.md"
FEATURES = "## Features"
MODES = "## Permission modes"
UPDATE_VARIABLE = "UPDATE_TABLES"

Rows = dict[str, list[str]]
"""The cells of each row by its first cell. The row of column names has the key of the first column."""


def check_column(section: str, agent: str, observed: Mapping[str, str], page: Path = PAGE) -> None:
    """Compare an agent's column in a table of the page with what was observed. Raises AssertionError."""
    if os.environ.get(UPDATE_VARIABLE):
        _write_column(section, agent, observed, page)
    table = _read(page.read_text(), section)
    names = next(iter(table.values()))
    assert agent in names, f"{page.name}, {section}: no column {agent}; run make agents-table"
    position = names.index(agent)
    shown = {key: cells[position] for key, cells in list(table.items())[1:]}
    assert shown == dict(observed), f"{page.name}, {section}: {agent} differs; run make agents-table"


def feature_cells(capabilities: Capabilities) -> dict[str, str]:
    """Return the column of the table of features. Its rows are named as in the REST API."""
    flags: dict[str, object] = to_builtins(capabilities)
    return {
        f"`{name}`": "yes" if supported else "no"
        for name, supported in flags.items()
        if isinstance(supported, bool)
    }


def _write_column(section: str, agent: str, observed: Mapping[str, str], page: Path) -> None:
    with page.open("r+") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        text = file.read()
        table = _read(text, section)
        before = _render(table)
        key, names = next(iter(table.items()))
        if agent not in names:
            table = {key: [*names, agent], **{row: [*cells, ""] for row, cells in list(table.items())[1:]}}
        position = table[key].index(agent)
        for row, cell in observed.items():
            table.setdefault(row, [""] * len(table[key]))[position] = cell
        file.seek(0)
        file.write(text.replace(before, _render(table)))
        file.truncate()


def _read(text: str, section: str) -> Rows:
    _, found, rest = text.partition(f"\n{section}\n")
    assert found, f"the page has no section {section}"
    rows: Rows = {}
    for line in rest.splitlines():
        if line.startswith("|"):
            first, *cells = [cell.strip() for cell in line.strip("|").split("|")]
            if set(first) != {"-"}:
                rows[first] = cells
        elif rows:
            break
    return rows


def _render(table: Rows) -> str:
    lines = [f"| {' | '.join([first, *cells])} |" for first, cells in table.items()]
    columns = len(next(iter(table.values()))) + 1
    return "\n".join([lines[0], "|" + "---|" * columns, *lines[1:]])
