"""`farsteer worktrees` and the actions of `farsteer sessions` on a worktree, with a hub."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.cli.conftest import RunCommand
from tests.support.eventually import eventually
from tests.support.repositories import commit, git, make_repository
from tests.support.stack import Account, Stack, farsteer

pytestmark = pytest.mark.slow

SETUP = 'setup = [["touch", "one"], ["sh", "-c", "env > environment; pwd > where"]]\n'


async def test_a_worktree_from_its_making_to_its_merge(hub: Stack, run_command: RunCommand) -> None:
    project = make_repository(Path(hub.directory()))
    assert "farsteer new --worktree" in (await run_command("worktrees")).err
    made = await run_command("new", str(project), "--agent", "demo", "--branch", "login", "--base", "main")
    session = made.out.strip()
    place = project.parent / "project-worktrees" / "login"
    commit(place, "the \x1b[2Jlogin", **{"c.txt": "an escape \x1b[2J\n"})
    (place / "new.txt").write_text("n\n")

    shown = await run_command("sessions", "worktree", session)
    assert (shown.code, "1 ahead of main, 0 behind" in shown.out, "new.txt" in shown.out) == (0, True, True)
    assert "\x1b" not in shown.out
    assert (
        json.loads((await run_command("sessions", "worktree", session, "--json")).out)["branch"]
        == "farsteer/login"
    )
    stat = await run_command("sessions", "diff", session, "--stat")
    assert stat.lines[0] == "2 files against main: +2 -0"
    patch = await run_command("sessions", "diff", session, "new.txt")
    assert "+n" in patch.lines
    listed = await run_command("worktrees")
    assert session[:8] in listed.out

    kept = await run_command("sessions", "merge", session)
    assert (kept.code, "  new.txt" in kept.err.splitlines()) == (1, True)
    merged = await run_command("sessions", "merge", session, "--force")
    assert merged.out.startswith("1 commit merged into main")
    assert (project / "c.txt").exists()
    commit(place, "new", **{"d.txt": "d\n"})
    commit(project, "ahead", **{"e.txt": "e\n"})
    assert "2 commits" not in (await run_command("sessions", "rebase", session)).out
    ready = await run_command("sessions", "branch", session, "fix-login")
    assert ready.lines == [f"git -C {place} push --set-upstream REMOTE fix-login"]
    lost = await run_command("sessions", "discard", session)
    assert lost.code == 1
    assert "worktree_changes" not in lost.out
    assert "new" in lost.err
    assert (await run_command("sessions", "discard", session, "--force")).code == 0
    assert not place.exists()


async def test_what_is_left_over_is_cleaned_up(hub: Stack, run_command: RunCommand) -> None:
    project = make_repository(Path(hub.directory()))
    session = (await run_command("new", str(project), "--agent", "demo", "--branch", "x")).out.strip()
    place = project.parent / "project-worktrees" / "x"
    (place / "new.txt").write_text("n")
    assert "nothing is left over" in (await run_command("worktrees", "clean")).err
    await run_command("sessions", "delete", "--yes", session)
    account = await hub.sign_in()
    machine = (await account.get_json("/api/machines"))["machines"][0]["id"]

    async def is_left_over() -> bool:
        found = (await account.get_json(f"/api/machines/{machine}/worktrees"))["worktrees"]
        return [one["sessionId"] for one in found] == [None]

    await eventually(is_left_over)
    assert "(deleted)" in (await run_command("worktrees", "list")).out
    kept = await run_command("worktrees", "clean")
    assert (kept.out, "  new.txt" in kept.err.splitlines()) == ("", True)
    assert place.exists()
    assert (await run_command("worktrees", "clean", "--force")).code == 2
    removed = await run_command("worktrees", "clean", str(place), "--force")
    assert removed.lines == [f"removed {place}"]
    assert not place.exists()


def steps(answer: Any) -> list[tuple[str, str, str | None]]:
    return [(line["step"], line["status"], line["code"]) for line in answer["logs"]]


async def create(stack: Stack, owner: Account, status: int = 200) -> Any:
    machine = (await owner.get_json("/api/machines"))["machines"][0]["id"]
    body = {"machineId": machine, "directory": stack.directory(), "agent": "demo", "sessionType": "worktree"}
    return await owner.post_json("/api/sessions", body, status)


async def place_of(owner: Account, answer: Any) -> Path:
    return Path((await owner.session(answer["sessionId"]))["directory"])


def prepare(stack: Stack, setup: str = SETUP) -> Path:
    project = make_repository(Path(stack.directory()))
    (project / ".farsteer").mkdir()
    commit(project, "setup", **{".farsteer/worktree.toml": setup})
    return project


async def test_a_changed_file_asks_again(
    home: Path, monkeypatch: pytest.MonkeyPatch, run_command: RunCommand
) -> None:
    monkeypatch.setenv("SECRET_KEY", "s3cret")
    async with farsteer(home) as stack:
        owner, project = await stack.sign_in(), prepare(stack)
        asked = await create(stack, owner)
        assert ("setup", "ok", None) in steps(asked)
        assert "farsteer worktrees allow" in next(
            one["message"] for one in asked["logs"] if one["step"] == "setup"
        )
        assert not (await place_of(owner, asked) / "one").exists()

        allowed = await run_command("worktrees", "allow", "--home", str(home), str(project))
        assert (allowed.code, allowed.lines) == (0, ["touch one", "sh -c 'env > environment; pwd > where'"])
        place = await place_of(owner, await create(stack, owner))
        assert (place / "one").exists()
        assert (place / "where").read_text().strip() == str(place)
        assert "s3cret" not in (place / "environment").read_text()

        commit(project, "another setup", **{".farsteer/worktree.toml": SETUP.replace("one", "two")})
        place = await place_of(owner, await create(stack, owner))
        assert not (place / "two").exists()
        assert (await run_command("worktrees", "disallow", "--home", str(home), str(project))).code == 0
        git(project, "revert", "--no-edit", "HEAD")
        place = await place_of(owner, await create(stack, owner))
        assert not (place / "one").exists()


async def test_a_setup_that_fails_is_a_step_and_leaves_nothing(home: Path, run_command: RunCommand) -> None:
    async with farsteer(home) as stack:
        owner = await stack.sign_in()
        project = prepare(stack, 'setup = [["sh", "-c", "echo the reason; exit 3"]]\n')
        await run_command("worktrees", "allow", "--home", str(home), str(project))
        answer = await create(stack, owner, 422)
        assert steps(answer)[-1] == ("setup", "error", "worktree_setup_failed")
        assert "ended with 3: the reason" in answer["message"]
        assert git(project, "branch", "--list", "farsteer/*") == ""
        assert [*(project.parent / "project-worktrees").iterdir()] == []
        machine = (await owner.get_json("/api/machines"))["machines"][0]["id"]
        assert (await owner.get_json(f"/api/machines/{machine}/worktrees"))["worktrees"] == []
