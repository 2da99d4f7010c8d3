"""Forks and rewinds through the face: a session of its own each time, and the one it was made from as it was."""

from __future__ import annotations

from collections.abc import AsyncIterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from farsteer.cli.daemon.in_process import in_process_hub
from farsteer.faces.droid.sessions import ServerOptions
from tests.support.droid_client import DroidClient, droid_here, text_of
from tests.support.droid_simulator import install

NOTHING: dict[str, list[Any]] = {"availableFiles": [], "createdFiles": [], "evictedFiles": []}


@pytest.fixture
async def droid(home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[DroidClient]:
    monkeypatch.setenv("DROID_EXECUTABLE", install(tmp_path, "0.215"))
    async with droid_here(partial(in_process_hub, home), ServerOptions(agent="droid")) as client:
        yield client


@pytest.fixture
async def old(home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[DroidClient]:
    """An agent that can copy nothing."""
    monkeypatch.setenv("DROID_EXECUTABLE", install(tmp_path, "0.57"))
    async with droid_here(partial(in_process_hub, home), ServerOptions(agent="droid")) as client:
        yield client


async def begun(client: DroidClient, desk: Path, *texts: str) -> str:
    """A session in which these were said, as messages m1, m2 and so on."""
    session = (await client.initialize(desk, autonomyLevel="high"))["sessionId"]
    for number, text in enumerate(texts, 1):
        await client.turn(text, messageId=f"m{number}")
    return session


async def asked(client: DroidClient, session: str) -> list[str]:
    """What a person has said in it, as the client sees it when it loads it."""
    loaded = await client.ask("load_session", {"sessionId": session})
    return [
        message["content"][0]["text"]
        for message in loaded["session"]["messages"]
        if message["role"] == "user"
    ]


async def test_a_fork_is_another_session_and_this_one_stays(client: DroidClient, desk: Path) -> None:
    session = await begun(client, desk, "say one", "say two")
    fork = (await client.ask("fork_session", {"title": "Another try"}))["newSessionId"]
    assert fork != session
    assert text_of(await client.turn("say three")) == "three"
    loaded = await client.ask("load_session", {"sessionId": fork})
    assert loaded["session"]["title"] == "Another try"
    assert text_of(await client.turn("what did I say?")) == "You said “say one”; “say two”."
    assert await asked(client, fork) == ["say one", "say two", "what did I say?"]
    assert await asked(client, session) == ["say one", "say two", "say three"]


async def test_a_rewind_makes_a_session_that_ends_before_the_message(client: DroidClient, desk: Path) -> None:
    session = await begun(client, desk, "say one", "say two", "say three")
    params = {"sessionId": session, "messageId": "m2", "filesToRestore": [], "filesToDelete": []}
    done = await client.ask("execute_rewind", {**params, "forkTitle": "Rewound"})
    assert (done["restoredCount"], done["deletedCount"]) == (0, 0)
    assert await asked(client, done["newSessionId"]) == ["say one"]
    assert text_of(await client.turn("what did I say?")) == "You said “say one”."
    assert await asked(client, session) == ["say one", "say two", "say three"]


async def test_files_go_back_with_it_where_the_client_wants_them(droid: DroidClient, desk: Path) -> None:
    (desk / "old.txt").write_text("before")
    session = await begun(droid, desk, "say one", "write old.txt after", "write new.txt x")
    info = await droid.ask("get_rewind_info", {"sessionId": session, "messageId": "m2"})
    assert {file["filePath"] for file in (*info["availableFiles"], *info["createdFiles"])} == {
        str(desk / "old.txt"),
        str(desk / "new.txt"),
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
    assert (desk / "old.txt").read_text() == "before"
    assert not (desk / "new.txt").exists()
    assert await asked(droid, done["newSessionId"]) == ["say one"]


async def test_half_of_the_files_is_refused(droid: DroidClient, desk: Path) -> None:
    session = await begun(droid, desk, "write a.txt x", "write b.txt y")
    params = {
        "sessionId": session,
        "messageId": "m1",
        "filesToRestore": [],
        "filesToDelete": [{"filePath": str(desk / "a.txt")}],
        "forkTitle": "Rewound",
    }
    error = (await droid.call("execute_rewind", params))["error"]
    assert (error["code"], "all files" in error["message"]) == (-32603, True)
    assert (desk / "a.txt").exists()


async def test_a_message_that_is_not_there(client: DroidClient, desk: Path) -> None:
    session = await begun(client, desk, "say one")
    about = {"sessionId": session, "messageId": "nothing"}
    assert await client.ask("get_rewind_info", about) == NOTHING
    answer = await client.call("execute_rewind", {**about, "filesToRestore": [], "filesToDelete": []})
    assert answer["error"] == {"code": -32603, "message": "Target message not found in source session"}


async def test_what_the_agent_cannot_do_is_an_error_and_the_session_goes_on(
    old: DroidClient, desk: Path
) -> None:
    session = await begun(old, desk, "say one", "write a.txt x")
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
    assert [file["filePath"] for file in info["evictedFiles"]] == [str(desk / "a.txt")]
    assert text_of(await old.turn("say still here")) == "still here"


async def test_without_a_session_there_is_nothing_to_copy(client: DroidClient) -> None:
    for method, params in (
        ("fork_session", {}),
        ("get_rewind_info", {"sessionId": "x", "messageId": "y"}),
        ("compact_session", {}),
    ):
        error = (await client.call(method, params))["error"]
        assert error["message"].startswith("No active session")


async def test_what_is_not_configured_is_an_empty_list(client: DroidClient, desk: Path) -> None:
    await client.initialize(desk)
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
