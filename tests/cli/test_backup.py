"""What `farsteer backup` and `restore` print. tests/storage/test_backup.py has what they do."""

from __future__ import annotations

import json
from pathlib import Path

from tests.cli.conftest import RunCommand


async def test_both_print_json(run_command: RunCommand, home: Path) -> None:
    home.mkdir(exist_ok=True)
    (home / "token").write_text("a secret")
    archive = home.parent / "backup.tar"
    made = await run_command("backup", str(archive), "--json")
    assert json.loads(made.out) == {
        "file": str(archive), "size": archive.stat().st_size, "contents": ["token"], "leftOut": [],
    }  # fmt: skip
    again = await run_command("backup", str(archive))
    assert again.code == 1
    assert "--force" in again.err
    new = home.parent / "new"
    done = await run_command("restore", str(archive), "--json", "--home", str(new))
    assert json.loads(done.out) == {
        "home": str(new), "contents": ["token"], "replaced": None, "finished": False,
    }  # fmt: skip
    assert (new / "token").read_text() == "a secret"
