"""The files of a session's directory over REST, with a real runner."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from farsteer import AsyncClient
from tests.runner.test_worktrees import git
from tests.support.stack import OWNER, Account, Stack


@pytest.fixture
async def session_id(stack: Stack, owner: Account) -> str:
    project = Path(stack.directory())
    git(project, "init", "-q")
    (project / "a.txt").write_text("one\n")
    git(project, "add", ".")
    git(project, "commit", "-qm", "first")
    (project / "a.txt").write_text("two\n")
    return await stack.create(owner)


async def ask(account: Account, address: str, status: int = 200) -> Any:
    response = await account.get(address)
    assert response.status_code == status, response.text
    return response.json()


async def test_files_and_changes_are_shown(stack: Stack, owner: Account, session_id: str) -> None:
    path = f"/api/sessions/{session_id}"
    listed = await ask(owner, f"{path}/files")
    assert [entry["name"] for entry in listed["entries"]] == [".git", "a.txt"]
    read = await ask(owner, f"{path}/file?path=a.txt&offset=1&length=2")
    assert (read["content"], read["nextOffset"], read["size"]) == ("wo", 3, 4)
    changes = await ask(owner, f"{path}/changes")
    assert [(file["path"], file["status"]) for file in changes["files"]] == [("a.txt", "modified")]
    assert "-one\n+two\n" in (await ask(owner, f"{path}/diff?path=a.txt"))["patch"]
    machine = (await owner.session(session_id))["machineId"]
    browsed = await ask(owner, f"/api/machines/{machine}/directories?path={stack.home.parent}")
    assert [(one["name"], one["allowed"]) for one in browsed["directories"]] == [("project", True)]


async def test_refusals_have_their_codes(stack: Stack, owner: Account, session_id: str) -> None:
    path = f"/api/sessions/{session_id}"
    for query, code in (
        ("path=none", "file_missing"),
        (f"path=../{stack.home.name}/token", "file_not_allowed"),
        (f"path={stack.home / 'token'}", "file_not_allowed"),
        ("", "file_not_allowed"),
    ):
        assert (await ask(owner, f"{path}/file?{query}", 422))["error"]["code"] == code
    machine = (await owner.session(session_id))["machineId"]
    home = await ask(owner, f"/api/machines/{machine}/directories?path={stack.home}", 422)
    assert home["error"]["code"] == "directory_not_allowed"
    for query in ("length=0", f"length={2**20 + 1}", "offset=-1", f"path={'x' * 5000}"):
        await ask(owner, f"{path}/file?{query}", 400)
    await stack.stop_runner()
    offline = await ask(owner, f"{path}/files", 409)
    assert offline["error"]["code"] == "machine_offline"


async def test_a_token_that_may_write_does_not_see_files(
    stack: Stack, owner: Account, session_id: str
) -> None:
    for scopes, status in ((["read", "write", "approve", "admin"], 403), (["files"], 200)):
        made = await owner.post_json("/api/tokens", {"label": "x", "scopes": scopes}, 201)
        account = await stack.sign_in(made["secret"])
        for name in ("files", "file?path=a.txt", "changes", "diff?path=a.txt"):
            assert (await account.get(f"/api/sessions/{session_id}/{name}")).status_code == status


async def test_the_sdk_reads_files(stack: Stack, session_id: str) -> None:
    async with AsyncClient(stack.url, OWNER) as client:
        session = client.attach(session_id)
        assert [entry.name for entry in (await session.list_files()).entries] == [".git", "a.txt"]
        assert (await session.read_file("a.txt", length=2)).content == "tw"
        assert [file.path for file in (await session.changes()).files] == ["a.txt"]
        assert "+two" in (await session.file_diff("a.txt")).patch
        machine_id = (await session.view()).machine_id
        browsed = await client.directories(machine_id, stack.directory())
        assert browsed.path == stack.directory()
