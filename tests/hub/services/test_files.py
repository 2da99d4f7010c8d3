"""Files of machines, as the hub asks for them: scopes, tenancy, versions, and answers that make no sense."""

from __future__ import annotations

from typing import Any

import pytest

from farsteer.core.errors import (
    AgentError,
    ErrorCode,
    Forbidden,
    MachineOffline,
    NotCapable,
    NotFound,
    Unprocessable,
)
from farsteer.core.file_commands import BrowseDirectories, ListChanges, ListDirectory, ReadDiff, ReadFile
from farsteer.core.ids import new_id
from farsteer.hub import Hub, Scope
from farsteer.link.messages import Reply
from tests.hub.conftest import create
from tests.hub.scripted import ScriptedRunner, caller, machine, refuse

ME = caller("default", Scope.FILES)
ENTRY = {"name": "a", "kind": "file", "size": 1, "modifiedAt": 1, "target": None}
LISTING = {"path": "", "entries": [ENTRY], "nextOffset": None, "truncated": False}


def answer(result: Any) -> Any:
    return lambda call: Reply(id=call.id, result=result)


async def test_a_session_is_asked_at_its_machine(hub: Hub, runner: ScriptedRunner, session_id: str) -> None:
    runner.answers[ListDirectory] = answer(LISTING)
    listing = await hub.files.list(ME, session_id, "src", 3)
    assert [entry.name for entry in listing.entries] == ["a"]
    content = {"path": "a", "size": 1, "modifiedAt": 1, "offset": 0, "length": 1, "nextOffset": None}
    runner.answers[ReadFile] = answer({**content, "encoding": "utf-8", "content": "x"})
    assert (await hub.files.read(ME, session_id, "a", offset=0, length=9)).content == "x"
    runner.answers[ListChanges] = answer({"branch": "b", "head": None, "files": [], "truncated": False})
    assert (await hub.files.changes(ME, session_id)).branch == "b"
    diff = {"path": "a", "oldPath": None, "patch": "+", "binary": False, "truncated": False}
    runner.answers[ReadDiff] = answer(diff)
    assert (await hub.files.diff(ME, session_id, "a")).patch == "+"
    found = {"path": "/w", "parent": None, "allowed": True, "directories": [], "truncated": False}
    runner.answers[BrowseDirectories] = answer(found)
    assert (await hub.files.browse(ME, runner.info.id, "/w")).path == "/w"
    asked = [(call.session, call.command) for call in runner.calls[1:]]
    assert asked == [
        (session_id, ListDirectory(path="src", offset=3)), (session_id, ReadFile(path="a", length=9)),
        (session_id, ListChanges()), (session_id, ReadDiff(path="a")), ("", BrowseDirectories(path="/w")),
    ]  # fmt: skip


async def test_the_scope_files_is_needed_and_enough(
    hub: Hub, runner: ScriptedRunner, session_id: str
) -> None:
    others = caller("default", *(set(Scope) - {Scope.FILES}))
    for attempt in (
        lambda: hub.files.list(others, session_id),
        lambda: hub.files.read(others, session_id, "a", offset=0, length=1),
        lambda: hub.files.changes(others, session_id),
        lambda: hub.files.diff(others, session_id, "a"),
        lambda: hub.files.browse(others, runner.info.id),
    ):
        with pytest.raises(Forbidden) as refused:
            await attempt()
        assert refused.value.details == {"scope": "files"}
    assert len(runner.calls) == 1
    runner.answers[ListDirectory] = answer(LISTING)
    assert (await hub.files.list(ME, session_id)).entries
    with pytest.raises(Forbidden):
        await hub.sessions.get(ME, session_id)


async def test_an_answer_that_makes_no_sense_is_an_error(
    hub: Hub, runner: ScriptedRunner, session_id: str
) -> None:
    for wrong in (
        None, [], {"entries": 1}, {**LISTING, "entries": [ENTRY] * 1001}, {**LISTING, "path": "x" * 20_000},
        {**LISTING, "entries": [{**ENTRY, "kind": "door"}]},
    ):  # fmt: skip
        runner.answers[ListDirectory] = answer(wrong)
        with pytest.raises(AgentError) as error:
            await hub.files.list(ME, session_id)
        assert error.value.code is ErrorCode.AGENT_PROTOCOL


async def test_the_refusal_of_a_machine_is_passed_on(
    hub: Hub, runner: ScriptedRunner, session_id: str
) -> None:
    runner.answers[ReadFile] = refuse(Unprocessable("no", code=ErrorCode.FILE_NOT_ALLOWED))
    with pytest.raises(Unprocessable) as error:
        await hub.files.read(ME, session_id, "a", offset=0, length=1)
    assert error.value.code is ErrorCode.FILE_NOT_ALLOWED


async def test_an_offline_machine_and_an_unknown_one(
    hub: Hub, runner: ScriptedRunner, session_id: str
) -> None:
    with pytest.raises(NotFound):
        await hub.files.browse(ME, new_id())
    with pytest.raises(NotFound):
        await hub.files.list(ME, new_id())
    await runner.disconnect()
    with pytest.raises(MachineOffline):
        await hub.files.list(ME, session_id)
    with pytest.raises(MachineOffline):
        await hub.files.browse(ME, runner.info.id)


async def test_a_runner_that_is_too_old_is_not_asked(hub: Hub) -> None:
    async with ScriptedRunner(hub, info=machine(), protocol=2) as old:
        session_id = await create(hub, old)
        for attempt in (lambda: hub.files.list(ME, session_id), lambda: hub.files.browse(ME, old.info.id)):
            with pytest.raises(NotCapable, match="update farsteer"):
                await attempt()
        assert len(old.calls) == 1
