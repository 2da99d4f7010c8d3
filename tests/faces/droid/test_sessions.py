"""Forks and rewinds make a new session and leave the source unchanged."""

from __future__ import annotations

from collections.abc import AsyncIterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from farsteer.cli.daemon.in_process import in_process_hub
from farsteer.faces.droid.sessions import GitRepository, ServerOptions, git_repository
from tests.support.droid_client import DroidClient, droid_here, text_of
from tests.support.droid_simulator import install

pytestmark = pytest.mark.slow

NO_FILES: dict[str, list[Any]] = {"availableFiles": [], "createdFiles": [], "evictedFiles": []}


@pytest.fixture
async def droid(home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[DroidClient]:
    monkeypatch.setenv("DROID_EXECUTABLE", install(tmp_path, "0.215"))
    async with droid_here(partial(in_process_hub, home), ServerOptions(agent="droid")) as client:
        yield client


@pytest.fixture
async def old(home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[DroidClient]:
    """A client with an agent that can neither fork nor rewind."""
    monkeypatch.setenv("DROID_EXECUTABLE", install(tmp_path, "0.57"))
    async with droid_here(partial(in_process_hub, home), ServerOptions(agent="droid")) as client:
        yield client


async def start_session(client: DroidClient, project: Path, *texts: str) -> str:
    """Start a session and run a turn for each text, as messages m1, m2 and so on; return its id."""
    session = (await client.initialize(project, autonomyLevel="high"))["sessionId"]
    for number, text in enumerate(texts, 1):
        await client.turn(text, messageId=f"m{number}")
    return session


async def user_texts(client: DroidClient, session: str) -> list[str]:
    """Load a session; return the texts of its user messages."""
    loaded = await client.ask("load_session", {"sessionId": session})
    return [
        message["content"][0]["text"]
        for message in loaded["session"]["messages"]
        if message["role"] == "user"
    ]


async def test_a_fork_is_another_session(client: DroidClient, project: Path) -> None:
    session = await start_session(client, project, "say one", "say two")
    fork = (await client.ask("fork_session", {"title": "Another try"}))["newSessionId"]
    assert fork != session
    assert text_of(await client.turn("say three")) == "three"
    loaded = await client.ask("load_session", {"sessionId": fork})
    assert loaded["session"]["title"] == "Another try"
    assert text_of(await client.turn("what did I say?")) == "You said “say one”; “say two”."
    assert await user_texts(client, fork) == ["say one", "say two", "what did I say?"]
    assert await user_texts(client, session) == ["say one", "say two", "say three"]


async def test_a_rewind_makes_a_session_that_ends_before_the_message(
    client: DroidClient, project: Path
) -> None:
    session = await start_session(client, project, "say one", "say two", "say three")
    params = {"sessionId": session, "messageId": "m2", "filesToRestore": [], "filesToDelete": []}
    done = await client.ask("execute_rewind", {**params, "forkTitle": "Rewound"})
    assert (done["restoredCount"], done["deletedCount"]) == (0, 0)
    assert await user_texts(client, done["newSessionId"]) == ["say one"]
    assert text_of(await client.turn("what did I say?")) == "You said “say one”."
    assert await user_texts(client, session) == ["say one", "say two", "say three"]


async def test_a_rewind_restores_files_if_the_client_asks_for_it(droid: DroidClient, project: Path) -> None:
    (project / "old.txt").write_text("before")
    session = await start_session(droid, project, "say one", "write old.txt after", "write new.txt x")
    info = await droid.ask("get_rewind_info", {"sessionId": session, "messageId": "m2"})
    assert {file["filePath"] for file in (*info["availableFiles"], *info["createdFiles"])} == {
        str(project / "old.txt"),
        str(project / "new.txt"),
    }
    assert info["evictedFiles"] == []
    done = await droid.ask(
        "execute_rewind",
        {
            "sessionId": session,
            "messageId": "m2",
            "filesToRestore": info["availableFiles"],
            "filesToDelete": info["createdFiles"],
            "forkTitle": "Rewound",
        },
    )
    assert done["restoredCount"] + done["deletedCount"] == 2
    assert (done["failedRestoreCount"], done["failedDeleteCount"]) == (0, 0)
    assert (project / "old.txt").read_text() == "before"
    assert not (project / "new.txt").exists()
    assert await user_texts(droid, done["newSessionId"]) == ["say one"]


async def test_restoring_only_some_files_is_refused(droid: DroidClient, project: Path) -> None:
    session = await start_session(droid, project, "write a.txt x", "write b.txt y")
    params = {
        "sessionId": session,
        "messageId": "m1",
        "filesToRestore": [],
        "filesToDelete": [{"filePath": str(project / "a.txt")}],
        "forkTitle": "Rewound",
    }
    error = (await droid.call("execute_rewind", params))["error"]
    assert (error["code"], "all files" in error["message"]) == (-32603, True)
    assert (project / "a.txt").exists()


async def test_a_rewind_to_an_unknown_message(client: DroidClient, project: Path) -> None:
    session = await start_session(client, project, "say one")
    about = {"sessionId": session, "messageId": "nothing"}
    assert await client.ask("get_rewind_info", about) == NO_FILES
    answer = await client.call("execute_rewind", {**about, "filesToRestore": [], "filesToDelete": []})
    assert answer["error"] == {"code": -32603, "message": "Target message not found in source session"}


async def test_a_missing_capability_is_an_error_and_the_session_goes_on(
    old: DroidClient, project: Path
) -> None:
    session = await start_session(old, project, "say one", "write a.txt x")
    about = {"sessionId": session, "messageId": "m2"}
    for method, params in (
        ("fork_session", {}),
        ("execute_rewind", {**about, "filesToRestore": [], "filesToDelete": []}),
        ("compact_session", {}),
    ):
        answer = await old.call(method, params)
        assert (answer["error"]["code"], "cannot" in answer["error"]["message"]) == (-32603, True), answer
        assert answer["id"] is not None
    info = await old.ask("get_rewind_info", about)
    assert [file["filePath"] for file in info["evictedFiles"]] == [str(project / "a.txt")]
    assert text_of(await old.turn("say still here")) == "still here"


async def test_forks_and_rewinds_need_a_session(client: DroidClient) -> None:
    for method, params in (
        ("fork_session", {}),
        ("get_rewind_info", {"sessionId": "x", "messageId": "y"}),
        ("compact_session", {}),
    ):
        error = (await client.call(method, params))["error"]
        assert error["message"].startswith("No active session")


async def test_what_is_not_configured_is_an_empty_list(client: DroidClient, project: Path) -> None:
    await client.initialize(project)
    none = {"total": 0, "connected": 0, "connecting": 0, "failed": 0, "disabled": 0}
    assert await client.ask("list_mcp_servers", {}) == {"servers": [], "summary": none}
    for method, what in (
        ("list_mcp_tools", "tools"),
        ("list_mcp_registry", "servers"),
        ("list_skills", "skills"),
        ("list_tools", "tools"),
    ):
        assert await client.ask(method, {}) == {what: []}
    error = (await client.call("add_mcp_server", {"name": "x", "type": "stdio"}))["error"]
    assert error["code"] == -32603


# -- the git repository


@pytest.mark.parametrize(
    ("url", "owner", "name"),
    [
        ("https://example.com/acme/tool.git", "acme", "tool"),
        ("git@example.com:acme/tool.git", "acme", "tool"),
        ("ssh://git@example.com/acme/my-tool", "acme", "my-tool"),
    ],
)
def test_the_repository_of_a_directory(tmp_path: Path, url: str, owner: str, name: str) -> None:
    assert git_repository("/nowhere/at/all") is None
    inside = tmp_path / "project" / "src"
    inside.mkdir(parents=True)
    git = tmp_path / "project" / ".git"
    git.mkdir()
    assert git_repository(str(inside)) == GitRepository(repo_name="project")
    (git / "config").write_text(f'[core]\n\tbare = false\n[remote "origin"]\n\turl = {url}\n\tfetch = x\n')
    assert git_repository(str(inside)) == GitRepository(repo_name=name, owner=owner)
