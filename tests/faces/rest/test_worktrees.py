"""The worktree of a session, over REST, in a real repository with the demo agent."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from farsteer.core.ids import new_id
from farsteer.runner.worktree_records import BranchMove, MadeWorktree, WorktreeRecords
from tests.support.eventually import eventually
from tests.support.repositories import commit, git, make_repository, snapshot
from tests.support.stack import Account, Stack, farsteer

pytestmark = pytest.mark.slow


@pytest.fixture
async def stack(home: Path) -> AsyncIterator[Stack]:
    async with farsteer(home) as stack:
        make_repository(Path(stack.directory()))
        yield stack


@pytest.fixture
async def owner(stack: Stack) -> Account:
    return await stack.sign_in()


@pytest.fixture
def project(stack: Stack) -> Path:
    return Path(stack.directory())


async def start(stack: Stack, owner: Account, **fields: Any) -> tuple[str, Path]:
    """Create a session with a worktree and return its path of the API and its directory."""
    session = await stack.create(owner, sessionType="worktree", permissionMode="yolo", **fields)
    shown = await owner.session(session)
    return f"/api/sessions/{session}", Path(shown["worktree"]["path"])


async def refused(owner: Account, method: str, path: str, body: Any = None, **query: Any) -> Any:
    response = await owner.request(method, path, json=body, params=query)
    assert response.status_code == 409, response.text
    return response.json()["error"]


async def test_a_worktree_is_shown_and_merged(stack: Stack, owner: Account, project: Path) -> None:
    path, place = await start(stack, owner, worktreeName="login")
    session = path.rsplit("/", 1)[1]
    assert (await owner.session(session))["worktree"] == {
        "base": str(project), "path": str(place), "branch": "farsteer/login", "name": "login", "baseBranch": "main",
        "baseCommit": git(project, "rev-parse", "main"),
    }  # fmt: skip
    await owner.turn(session, "write new.txt hello")
    shown = await owner.get_json(f"{path}/worktree")
    assert (shown["changes"], shown["unmerged"], shown["problem"]) == (["new.txt"], [], None)
    error = await refused(owner, "POST", f"{path}/worktree/merge")
    assert (error["code"], error["details"]["files"]) == ("worktree_changes", ["new.txt"])
    made = commit(place, "the login")
    shown = await owner.get_json(f"{path}/worktree")
    assert (shown["ahead"], shown["behind"], shown["unmerged"]) == (1, 0, [f"{made[:7]} the login"])
    merged = await owner.post_json(f"{path}/worktree/merge")
    assert (merged["branch"], merged["commit"], merged["commits"], merged["directory"]) == (
        "main", made, 1, str(project),
    )  # fmt: skip
    assert (project / "new.txt").read_text().strip() == "hello"
    assert git(project, "status", "--porcelain") == ""
    assert (await owner.post_json(f"{path}/worktree/merge"))["commits"] == 0
    notices = [
        one["content"]["text"] for one in await owner.messages(session) if one["content"]["kind"] == "notice"
    ]
    assert notices == ["1 commit of farsteer/login merged into main"]


async def test_a_conflict_names_the_files_and_leaves_everything_as_it_was(
    stack: Stack, owner: Account, project: Path
) -> None:
    path, place = await start(stack, owner)
    commit(place, "theirs", **{"a.txt": "theirs\n"})
    commit(project, "ours", **{"a.txt": "ours\n"})
    (project / "untracked").write_text("mine")
    before = snapshot(project), snapshot(place)
    for action in ("merge", "rebase"):
        error = await refused(owner, "POST", f"{path}/worktree/{action}")
        assert (error["code"], error["details"]["files"]) == ("merge_conflict", ["a.txt"])
    assert (snapshot(project), snapshot(place)) == before


async def test_a_rebase_moves_the_worktree_onto_its_base(stack: Stack, owner: Account, project: Path) -> None:
    path, place = await start(stack, owner)
    commit(place, "mine", **{"c.txt": "c\n"})
    onto = commit(project, "theirs", **{"a.txt": "theirs\n"})
    moved = await owner.post_json(f"{path}/worktree/rebase")
    assert git(place, "rev-parse", "HEAD") == moved["commit"]
    assert git(place, "rev-parse", "HEAD^") == onto
    assert (place / "a.txt").read_text() == "theirs\n"
    assert git(place, "status", "--porcelain") == ""
    git(project, "tag", "old", "main~1")
    await owner.post_json(f"{path}/worktree/rebase", {"onto": "old"})
    assert (await owner.get_json(f"{path}/worktree"))["baseBranch"] is None
    error = await owner.post_json(f"{path}/worktree/rebase", {"onto": "--nothing"}, 422)
    assert error["error"]["code"] == "base_unknown"


async def test_a_diff_is_against_the_base_with_new_files_and_any_name(
    stack: Stack, owner: Account, project: Path
) -> None:
    path, place = await start(stack, owner)
    commit(place, "rename", **{"c.txt": "c\n"})
    git(place, "mv", "b.txt", "renamed.txt")
    (place / "a.txt").write_text("one\ntwo\nchanged\n")
    (place / os.fsdecode(b"new\nline \xff.txt")).write_text("x\ny\n")
    (place / "image").write_bytes(b"\0\1\2")
    commit(project, "not mine", **{"d.txt": "d\n"})
    index = git(place, "ls-files", "--stage")
    diff = await owner.get_json(f"{path}/worktree/diff")
    assert {one["path"]: (one["status"], one["additions"], one["deletions"]) for one in diff["files"]} == {
        "a.txt": ("modified", 1, 1), "c.txt": ("added", 1, 0), "renamed.txt": ("renamed", 0, 0),
        "new\nline \\xff.txt": ("added", 2, 0), "image": ("added", None, None),
    }  # fmt: skip
    assert (diff["base"], diff["filesCount"], diff["additions"], diff["deletions"]) == ("main", 5, 4, 1)
    assert "+changed" in diff["patch"]
    assert git(place, "ls-files", "--stage") == index
    first = await owner.get_json(f"{path}/worktree/diff", limit=2)
    assert (len(first["files"]), first["nextOffset"]) == (2, 2)
    rest = await owner.get_json(f"{path}/worktree/diff", limit=3, offset=2)
    assert first["files"] + rest["files"] == diff["files"]
    assert rest["nextOffset"] is None
    one = (await owner.get(f"{path}/worktree/diff", params={"path": "new\nline \\xff.txt"})).json()
    assert one["filesCount"] == 1
    assert "+y" in one["patch"]
    (place / "large.txt").write_text("a line of a large file\n" * 20_000)
    large = (await owner.get(f"{path}/worktree/diff", params={"path": "large.txt"})).json()
    assert large["truncated"]
    assert len(large["patch"]) <= 256 * 1024
    assert (await owner.get(f"{path}/worktree/diff", params={"path": "b"})).status_code == 404


async def test_a_worktree_begins_with_a_branch_a_tag_or_a_commit(
    stack: Stack, owner: Account, project: Path
) -> None:
    first = git(project, "rev-parse", "HEAD")
    git(project, "tag", "v1")
    git(project, "branch", "develop")
    commit(project, "second", **{"c.txt": "c\n"})
    for base, branch in (("develop", "develop"), ("v1", None), (first[:10], None)):
        path, place = await start(stack, owner, worktreeBase=base)
        assert git(place, "rev-parse", "HEAD") == first
        shown = await owner.get_json(f"{path}/worktree")
        assert (shown["baseBranch"], shown["baseCommit"], shown["behind"]) == (branch, first, 0)
    error = await owner.post_json(f"{path}/worktree/merge", status=400)
    assert "say which one" in error["error"]["message"]
    assert (await owner.post_json(f"{path}/worktree/merge", {"into": "main"}))["commits"] == 0
    machine = (await owner.get_json("/api/machines"))["machines"][0]["id"]
    body = {"machineId": machine, "directory": str(project), "agent": "demo", "sessionType": "worktree"}
    answer = await owner.post_json("/api/sessions", {**body, "worktreeBase": "nothing"}, 422)
    assert answer["logs"][-1]["code"] == "base_unknown"
    del body["sessionType"]
    answer = await owner.post_json("/api/sessions", {**body, "worktreeBase": "main"}, 400)
    assert answer["details"]["field"] == "worktreeBase"


async def test_a_detached_repository_has_no_base_branch(stack: Stack, owner: Account, project: Path) -> None:
    git(project, "checkout", "-q", "--detach")
    path, place = await start(stack, owner)
    commit(place, "mine", **{"c.txt": "c\n"})
    shown = await owner.get_json(f"{path}/worktree")
    assert (shown["baseBranch"], shown["ahead"]) == (None, 1)
    assert (await owner.post_json(f"{path}/worktree/merge", {"into": "main"}))["directory"] is None
    assert git(project, "log", "-1", "--format=%s", "main") == "mine"


async def test_nothing_is_discarded_that_would_be_lost(stack: Stack, owner: Account, project: Path) -> None:
    path, place = await start(stack, owner, worktreeName="x")
    made = commit(place, "only here", **{"c.txt": "c\n"})
    (place / "untracked").write_text("u")
    error = await refused(owner, "DELETE", f"{path}/worktree")
    assert error["code"] == "worktree_changes"
    assert error["details"]["files"] == ["untracked"]
    assert error["details"]["commits"] == [f"{made[:7]} only here"]
    assert (place / "untracked").exists()
    gone = (await owner.delete(f"{path}/worktree", params={"force": "true"})).json()
    assert (gone["exists"], place.exists()) == (False, False)
    assert git(project, "branch", "--list", "farsteer/*") == ""
    assert git(project, "worktree", "list", "--porcelain").count("worktree ") == 1
    session = path.rsplit("/", 1)[1]
    assert (await owner.session(session))["status"] == "stopped"
    other, place = await start(stack, owner, worktreeName="y")
    assert (await owner.delete(f"{other}/worktree")).status_code == 200
    assert not place.exists()


async def test_what_is_on_a_detached_head_would_be_lost_too(stack: Stack, owner: Account) -> None:
    path, place = await start(stack, owner)
    git(place, "checkout", "-q", "--detach")
    commit(place, "nowhere else", **{"c.txt": "c\n"})
    error = await refused(owner, "DELETE", f"{path}/worktree")
    assert error["details"]["commits_count"] == 1
    assert "not its branch" in (await refused(owner, "POST", f"{path}/worktree/merge"))["message"]
    assert "not its branch" in (await owner.get_json(f"{path}/worktree"))["problem"]


async def test_a_filled_submodule_is_not_discarded_without_force(
    stack: Stack, owner: Account, project: Path, tmp_path: Path
) -> None:
    library = make_repository(tmp_path / "library")
    git(project, "-c", "protocol.file.allow=always", "submodule", "add", "-q", str(library), "lib")
    commit(project, "with a library")
    path, place = await start(stack, owner)
    assert (await owner.get_json(f"{path}/worktree"))["changes"] == []
    git(place, "-c", "protocol.file.allow=always", "submodule", "update", "-q", "--init")
    assert (await refused(owner, "DELETE", f"{path}/worktree"))["details"]["files"] == ["lib/"]
    assert (await owner.delete(f"{path}/worktree", params={"force": "true"})).status_code == 200
    assert not place.exists()


async def test_nothing_changes_under_an_agent_that_works(stack: Stack, owner: Account, project: Path) -> None:
    path, place = await start(stack, owner)
    session = path.rsplit("/", 1)[1]
    commit(place, "mine", **{"c.txt": "c\n"})
    await owner.say(session, "hang")
    await owner.until(session, "working")
    for method, action, body in (
        ("POST", "/merge", {}), ("POST", "/rebase", {}), ("POST", "/branch", {"name": "x"}), ("DELETE", "", None),
    ):  # fmt: skip
        assert (await refused(owner, method, f"{path}/worktree{action}", body))["code"] == "turn_running"
    assert (await owner.get_json(f"{path}/worktree/diff"))["filesCount"] == 1
    await owner.post_json(f"{path}/abort")
    await owner.until(session, "idle")
    other = await stack.create(owner)
    await owner.say(other, "hang")
    await owner.until(other, "working")
    error = await refused(owner, "POST", f"{path}/worktree/merge")
    assert (error["code"], error["details"]["session"]) == ("turn_running", other)
    assert not (project / "c.txt").exists()
    await owner.post_json(f"/api/sessions/{other}/abort")
    await owner.until(other, "idle")
    assert (await owner.post_json(f"{path}/worktree/merge"))["commits"] == 1
    await owner.turn(session, "say still here")


async def test_a_branch_is_made_ready_for_a_pull_request(stack: Stack, owner: Account, project: Path) -> None:
    git(project, "remote", "add", "origin", "https://user:secret@github.com/owner/project.git")
    path, place = await start(stack, owner)
    commit(place, "mine", **{"c.txt": "c\n"})
    (place / "untracked").write_text("u")
    ready = await owner.post_json(f"{path}/worktree/branch", {"name": "fix/login"})
    assert ready == {
        "branch": "fix/login", "baseBranch": "main", "commits": 1, "changes": ["untracked"], "changesCount": 1,
        "remote": "origin", "push": ["git", "-C", str(place), "push", "--set-upstream", "origin", "fix/login"],
        "compare": "https://github.com/owner/project/compare/main...fix/login?expand=1",
    }  # fmt: skip
    session = path.rsplit("/", 1)[1]
    await eventually(lambda: _has_branch(owner, session, "fix/login"))
    assert git(place, "branch", "--show-current") == "fix/login"
    for name in ("main", "a..b", "-x", "a b"):
        answer = await owner.post(f"{path}/worktree/branch", json={"name": name})
        assert answer.status_code == (409 if name == "main" else 400), name


async def _has_branch(owner: Account, session: str, branch: str) -> bool:
    return (await owner.session(session))["worktree"]["branch"] == branch


async def test_what_deleted_sessions_leave_is_listed_and_cleaned_up(
    stack: Stack, owner: Account, project: Path
) -> None:
    machine = (await owner.get_json("/api/machines"))["machines"][0]["id"]
    everything = f"/api/machines/{machine}/worktrees"
    kept_path, kept = await start(stack, owner, worktreeName="kept")
    living_path, living = await start(stack, owner, worktreeName="living")
    gone_path, gone = await start(stack, owner, worktreeName="gone")
    commit(kept, "only here", **{"c.txt": "c\n"})
    for path in (kept_path, gone_path):
        await owner.delete(path)

    async def are_left_over() -> bool:
        found = (await owner.get_json(everything))["worktrees"]
        return {one["path"] for one in found if one["sessionId"] is None} == {str(kept), str(gone)}

    await eventually(are_left_over)
    await owner.post_json(f"{everything}/clean", {"force": True}, 400)
    cleaned = await owner.post_json(f"{everything}/clean")
    assert cleaned["removed"] == [str(gone)]
    (left,) = cleaned["kept"]
    assert (left["path"], left["code"], left["changes"]) == (str(kept), "worktree_changes", [])
    assert left["unmerged"][0].endswith("only here")
    forced = {"paths": [str(kept), str(living), str(project), "/"], "force": True}
    cleaned = await owner.post_json(f"{everything}/clean", forced)
    assert cleaned["removed"] == [str(kept)]
    assert [one["code"] for one in cleaned["kept"]] == ["conflict", "not_found", "not_found"]
    assert [one["path"] for one in (await owner.get_json(everything))["worktrees"]] == [str(living)]
    assert (await owner.get_json(f"{living_path}/worktree"))["exists"]
    assert (project / "a.txt").exists()


async def test_two_sessions_of_one_repository_are_merged_at_once(
    stack: Stack, owner: Account, project: Path
) -> None:
    places = [await start(stack, owner) for _ in range(3)]
    for number, (_, place) in enumerate(places):
        commit(place, f"number {number}", **{f"{number}.txt": "x\n"})
    merged = await asyncio.gather(*(owner.post_json(f"{path}/worktree/merge") for path, _ in places))
    assert sorted(one["commits"] for one in merged) == [1, 1, 1]
    assert {f"{number}.txt" for number in range(3)} <= {*git(project, "ls-files").split()}
    assert git(project, "status", "--porcelain") == ""


async def test_what_a_killed_runner_left_undone_is_finished_at_the_next_start(
    stack: Stack, owner: Account, project: Path, home: Path
) -> None:
    path, place = await start(stack, owner)
    other_path, other = await start(stack, owner)
    new, old = commit(place, "mine", **{"c.txt": "c\n"}), git(project, "rev-parse", "main")
    await stack.stop_runner()
    records = WorktreeRecords(home)
    # As if it was killed after the files were changed and before the branch moved, and while it removed another one.
    git(project, "read-tree", "-m", "-u", old, new)
    await records.begin(BranchMove(str(project), str(project / ".git"), "main", old, new))
    made = records.find(str(other))
    assert made is not None
    await records.put(MadeWorktree(made.worktree, made.session, discarded=True))
    # And before git had made one that it was about to make.
    nothing = made.worktree.path + "-never"
    await records.put(MadeWorktree(replace(made.worktree, path=nothing, branch="farsteer/never"), new_id()))
    await stack.start_runner()
    assert git(project, "rev-parse", "main") == new
    assert git(project, "status", "--porcelain") == ""
    assert not other.exists()
    machine = (await owner.get_json("/api/machines"))["machines"][0]["id"]
    listed = (await owner.get_json(f"/api/machines/{machine}/worktrees"))["worktrees"]
    assert [one["path"] for one in listed] == [str(place)]
    assert WorktreeRecords(home).moves == ()
    assert not (await owner.get_json(f"{other_path}/worktree"))["exists"]
    assert (await owner.post_json(f"{path}/worktree/merge"))["commits"] == 0


async def test_a_move_that_cannot_be_finished_is_reported_until_it_can(
    stack: Stack, owner: Account, project: Path, home: Path
) -> None:
    path, place = await start(stack, owner)
    new, old = commit(place, "mine", **{"c.txt": "c\n"}), git(project, "rev-parse", "main")
    await stack.stop_runner()
    await WorktreeRecords(home).begin(BranchMove(str(project), str(project / ".git"), "main", old, new))
    lock = project / ".git" / "index.lock"
    lock.touch()
    await stack.start_runner()
    assert "interrupted" in (await owner.get_json(f"{path}/worktree"))["problem"]
    error = await refused(owner, "POST", f"{path}/worktree/merge")
    assert "index.lock" in error["message"]
    lock.unlink()
    assert (await owner.post_json(f"{path}/worktree/merge"))["commits"] == 0
    assert git(project, "rev-parse", "main") == new
    assert (await owner.get_json(f"{path}/worktree"))["problem"] is None


async def test_a_session_without_a_worktree_and_a_machine_that_is_offline(
    stack: Stack, owner: Account
) -> None:
    plain = await stack.create(owner)
    answer = await owner.get_json(f"/api/sessions/{plain}/worktree", 422)
    assert answer["error"]["code"] == "worktree_missing"
    path, _ = await start(stack, owner)
    await stack.stop_runner()
    machine = (await owner.get_json("/api/machines"))["machines"][0]["id"]
    for where in (f"{path}/worktree", f"{path}/worktree/diff", f"/api/machines/{machine}/worktrees"):
        assert (await owner.get_json(where, 409))["error"]["code"] == "machine_offline"


async def test_a_fork_works_in_the_worktree_of_its_source(stack: Stack, owner: Account) -> None:
    path, place = await start(stack, owner)
    await owner.turn(path.rsplit("/", 1)[1], "say hello")
    fork = (await owner.post_json(f"{path}/fork", {}))["sessionId"]
    assert (await owner.get_json(f"/api/sessions/{fork}/worktree"))["path"] == str(place)
    await owner.say(fork, "hang")
    await owner.until(fork, "working")
    assert (await refused(owner, "DELETE", f"{path}/worktree"))["details"]["session"] == fork


async def test_a_token_that_may_only_read_sees_no_files(stack: Stack, owner: Account) -> None:
    path, _ = await start(stack, owner)
    made = await owner.post_json("/api/tokens", {"label": "reader", "scopes": ["read"]}, 201)
    reader = await stack.sign_in(made["secret"])
    for where in ("worktree", "worktree/diff"):
        assert (await reader.get(f"{path}/{where}")).status_code == 403


async def test_a_worktree_that_git_does_not_remove_is_not_removed_later(
    stack: Stack, owner: Account, project: Path, home: Path
) -> None:
    path, place = await start(stack, owner)
    git(project, "worktree", "lock", str(place))
    answer = await owner.delete(f"{path}/worktree", params={"force": "true"})
    assert (answer.status_code, "lock" in answer.json()["error"]["message"]) == (422, True)
    (place / "later.txt").write_text("later")
    await stack.stop_runner()
    await stack.start_runner()
    assert (place / "later.txt").exists()
    assert [one.discarded for one in WorktreeRecords(home).made] == [False]
