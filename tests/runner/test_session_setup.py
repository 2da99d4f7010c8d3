"""Creating sessions on a machine, and importing conversations that an agent already has."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any, ClassVar

import pytest

from farsteer.agents.demo.history import History
from farsteer.core import commands
from farsteer.core.capabilities import Capabilities
from farsteer.core.errors import AgentError, ErrorCode
from farsteer.core.events import AgentMessage, SessionEvent, SessionStatus, UserMessage
from farsteer.core.ids import new_id
from farsteer.core.launch import LaunchMode
from farsteer.core.queue import QueueItem
from farsteer.core.session import Fork, SessionSpec, SessionState, StoredConversation
from farsteer.link.messages import Call, Reply, Welcome
from farsteer.runner.runner import Runner
from tests.runner.scripted import ScriptedAdapter, ScriptedLaunch
from tests.support.agents import ReplacedAgents
from tests.support.eventually import eventually


class ImportableAdapter(ScriptedAdapter):
    """A scripted agent that has stored conversations."""

    name: ClassVar[str] = "importable"
    capabilities = Capabilities(resume=True, import_history=True)

    def __init__(self, directory: Path) -> None:
        super().__init__()
        self.directory = directory
        self.stored: dict[str, list[SessionEvent]] = {}
        self.deleted: list[str] = []

    def store(self, native_id: str, *texts: str) -> None:
        events = (UserMessage(item_id=text, text=text) if n % 2 == 0 else AgentMessage(message_id=text, text=text)
                for n, text in enumerate(texts))  # fmt: skip
        self.stored[native_id] = list(events)

    def _conversation(self, native_id: str) -> StoredConversation:
        return StoredConversation(
            native_id=native_id, agent=self.name, directory=str(self.directory), updated_at=1, title=None
        )

    async def list_conversations(
        self, state_dir: str, directory: str | None, limit: int
    ) -> list[StoredConversation]:
        return [self._conversation(native_id) for native_id in self.stored][:limit]

    async def read_history(
        self, native_id: str, state_dir: str
    ) -> tuple[StoredConversation, list[SessionEvent]]:
        await self.gate.wait()
        if native_id not in self.stored:
            raise AgentError("no such conversation", code=ErrorCode.CONVERSATION_MISSING)
        return self._conversation(native_id), self.stored[native_id]

    async def delete_conversation(self, native_id: str, state_dir: str) -> None:
        self.deleted.append(native_id)


class RunnerHarness:
    """A runner without a link. Tests call it as a hub would."""

    def __init__(self, home: Path, agent: ImportableAdapter) -> None:
        self.home = home
        self.agent = agent
        self.runner: Runner

    async def open(self) -> None:
        self.runner = await Runner.open(
            self.home, agents=ReplacedAgents(self.home, {self.agent.name: self.agent})
        )

    async def call(self, command: commands.Command, session: str = "") -> Reply:
        return await self.runner.handle(Call(id=1, session=session, command=command))

    async def import_(self, native_id: str, **fields: Any) -> Reply:
        spec = SessionSpec(
            **{"id": new_id(), "machine_id": "m", "directory": "", "agent": self.agent.name, **fields},
            native_id=native_id,
        )
        return await self.call(commands.Create(spec=spec), spec.id)

    async def imported(self, native_id: str, **fields: Any) -> SessionState:
        reply = await self.import_(native_id, **fields)
        assert reply.error is None, reply.error
        assert reply.state is not None
        assert reply.seq == reply.state.seq
        return reply.state

    async def listed(self, **wanted: Any) -> list[dict[str, Any]]:
        reply = await self.call(commands.ListConversations(**{"agent": self.agent.name, **wanted}))
        assert reply.error is None, reply.error
        assert reply.seq == 0, "it causes no event of any session"
        return reply.result

    async def send(self, session: str) -> ScriptedLaunch:
        """Send a message and return the launch that it causes."""
        item = QueueItem(id=new_id(), text="continue", created_at=1)
        assert (await self.call(commands.Send(item=item), session)).error is None
        return await self.agent.launch()


@pytest.fixture
async def harness(home: Path, project: Path) -> AsyncIterator[RunnerHarness]:
    harness = RunnerHarness(home, ImportableAdapter(project))
    await harness.open()
    yield harness
    await harness.runner.close()


async def test_a_repeated_create_resumes_the_session_and_creates_nothing(
    harness: RunnerHarness, project: Path
) -> None:
    spec = SessionSpec(id=new_id(), machine_id="m", directory=str(project), agent=harness.agent.name)
    create = commands.Create(spec=spec)
    for _ in range(2):
        reply = await harness.call(create, spec.id)
        assert reply.error is None, reply.error
    assert len(harness.agent.plans) == 1, "the process is running"
    await harness.call(commands.Stop(), spec.id)
    reply = await harness.call(create, spec.id)
    assert reply.error is None, reply.error
    assert reply.state is not None
    assert reply.state.status is SessionStatus.IDLE
    assert [plan.generation for plan in harness.agent.plans] == [1, 2]


async def test_a_create_that_fails_leaves_no_session(harness: RunnerHarness, project: Path) -> None:
    spec = SessionSpec(id=new_id(), machine_id="m", directory=str(project), agent=harness.agent.name)
    harness.agent.start_error = AgentError("broken")
    reply = await harness.call(commands.Create(spec=spec), spec.id)
    assert reply.error is not None
    assert [(line.step, line.status) for line in reply.logs][-1] == ("launch", "error")
    assert harness.runner.actor(spec.id) is None


async def test_a_conversation_becomes_a_session_with_its_history(
    harness: RunnerHarness, project: Path
) -> None:
    harness.agent.store("chat-1", "what is 6 * 7?", "42")
    state = await harness.imported("chat-1")
    assert (state.status, state.seq) == (SessionStatus.STOPPED, 2)
    assert (state.native_id, state.registered) == ("chat-1", True)
    assert (state.title, state.last_message) == ("what is 6 * 7?", "42")
    assert state.directory == str(project.resolve())
    assert not state.queue
    assert harness.agent.plans == [], "no process is started before there is a message"


async def test_the_next_message_resumes_it_under_its_native_id(harness: RunnerHarness) -> None:
    harness.agent.store("chat-1", "hello", "hi")
    state = await harness.imported("chat-1")
    launch = await harness.send(state.id)
    assert (launch.plan.decision.start, launch.plan.decision.native_id) == (LaunchMode.RESUME, "chat-1")
    assert (await launch.prompt()).text == "continue"


async def test_a_given_title_is_kept(harness: RunnerHarness) -> None:
    harness.agent.store("chat-1", "hello", "hi")
    state = await harness.imported("chat-1", title="mine")
    assert (state.title, state.title_by_user) == ("mine", True)


async def test_the_list_names_the_session_of_each_conversation(harness: RunnerHarness) -> None:
    harness.agent.store("chat-1", "hello")
    harness.agent.store("chat-2", "hello")
    state = await harness.imported("chat-2")
    assert [(one["nativeId"], one["sessionId"]) for one in await harness.listed()] == [
        ("chat-1", None),
        ("chat-2", state.id),
    ]
    assert len(await harness.listed(limit=1)) == 1


async def test_a_conversation_is_imported_once(harness: RunnerHarness) -> None:
    harness.agent.store("chat-1", "hello")
    harness.agent.gate.clear()
    both = [asyncio.create_task(harness.import_("chat-1")) for _ in range(2)]
    done, _ = await asyncio.wait(both, return_when=asyncio.FIRST_COMPLETED)
    refused = done.pop().result()
    harness.agent.gate.set()
    replies = [await task for task in both]
    assert refused.error is not None
    assert refused.error.code is ErrorCode.CONFLICT
    (state,) = [reply.state for reply in replies if reply.error is None]
    assert state is not None
    again = (await harness.import_("chat-1")).error
    assert again is not None
    assert (again.status, again.details) == (409, {"session": state.id})


async def test_a_repeated_import_returns_the_same_session(harness: RunnerHarness) -> None:
    harness.agent.store("chat-1", "hello")
    id = new_id()
    first = await harness.imported("chat-1", id=id)
    assert await harness.imported("chat-1", id=id) == first


async def test_a_failed_import_leaves_nothing(harness: RunnerHarness, project: Path) -> None:
    missing = await harness.import_("chat-0")
    assert missing.error is not None
    assert missing.error.code is ErrorCode.CONVERSATION_MISSING
    assert missing.logs[-1].status == "error"
    harness.agent.store("chat-1", "hello")
    harness.agent.directory = project / "gone"
    nowhere = await harness.import_("chat-1")
    assert nowhere.error is not None
    assert nowhere.error.code is ErrorCode.DIRECTORY_MISSING
    harness.agent.directory = project
    assert (await harness.imported("chat-1")).seq == 1, "the import can be repeated"


async def test_conversations_outside_the_roots_are_not_listed(
    harness: RunnerHarness, home: Path, project: Path
) -> None:
    inside = project / "inside"
    inside.mkdir()
    await harness.runner.close()
    (home / "runner.toml").write_text(f'roots = ["{inside}"]\n')
    await harness.open()
    harness.agent.store("chat-1", "hello")
    assert await harness.listed() == []
    refused = (await harness.import_("chat-1")).error
    assert refused is not None
    assert refused.code is ErrorCode.DIRECTORY_NOT_ALLOWED
    harness.agent.directory = inside / "was here"
    assert len(await harness.listed()) == 1


async def test_an_interrupted_import_can_be_repeated(harness: RunnerHarness) -> None:
    harness.agent.store("chat-1", "hello")
    id = new_id()
    harness.agent.gate.clear()
    cut = asyncio.create_task(harness.import_("chat-1", id=id))
    await eventually(lambda: bool(harness.runner.importing))
    cut.cancel()
    await asyncio.wait([cut])
    harness.agent.gate.set()
    state = SessionState(id=id, agent=harness.agent.name, directory="/")
    spec = SessionSpec(id=id, machine_id="m", directory="/", native_id="chat-1")
    await harness.runner._journal.create_session(spec, state)
    assert (await harness.imported("chat-1", id=id)).seq == 1


async def test_an_imported_session_exists_after_a_restart(harness: RunnerHarness) -> None:
    harness.agent.store("chat-1", "hello", "hi")
    state = await harness.imported("chat-1")
    await harness.runner.close()
    await harness.open()
    actor = harness.runner.actor(state.id)
    assert actor is not None
    assert actor.state == state
    assert (await harness.listed())[0]["sessionId"] == state.id


async def test_deleting_a_session_keeps_an_imported_conversation(harness: RunnerHarness) -> None:
    harness.agent.store("chat-1", "hello")
    state = await harness.imported("chat-1")
    assert (await harness.call(commands.Delete(), state.id)).error is None
    assert harness.runner.actor(state.id) is None
    assert harness.agent.deleted == []
    assert (await harness.listed())[0]["sessionId"] is None
    await harness.imported("chat-1")


async def test_deleting_a_session_deletes_a_conversation_that_it_created(
    harness: RunnerHarness, project: Path
) -> None:
    spec = SessionSpec(id=new_id(), machine_id="m", directory=str(project), agent=harness.agent.name)
    actor = await harness.runner.create_session(
        spec,
        SessionState(
            id=spec.id, agent=harness.agent.name, directory=str(project), native_id="ours", registered=True
        ),
    )
    assert not actor.state.queue
    await harness.call(commands.Delete(), spec.id)
    assert harness.agent.deleted == ["ours"]


async def test_a_deletion_whose_link_ends_is_finished(harness: RunnerHarness, project: Path) -> None:
    spec = SessionSpec(id=new_id(), machine_id="m", directory=str(project), agent=harness.agent.name)
    state = SessionState(id=spec.id, agent=spec.agent or "", directory=str(project), native_id="ours")
    await harness.runner.create_session(spec, state)
    deleting = asyncio.create_task(harness.call(commands.Delete(), spec.id))
    await eventually(lambda: harness.runner.actor(spec.id) is None)
    deleting.cancel()
    await harness.runner.close()
    assert harness.agent.deleted == ["ours"]
    await harness.open()
    assert harness.runner.actor(spec.id) is None


async def test_a_conversation_that_is_yet_to_be_forked_is_kept(harness: RunnerHarness, project: Path) -> None:
    place = str(project)

    async def session(**fields: Any) -> str:
        spec = SessionSpec(id=new_id(), machine_id="m", directory=place, agent=harness.agent.name)
        state = SessionState(id=spec.id, agent=harness.agent.name, directory=place, **fields)
        await harness.runner.create_session(spec, state)
        return spec.id

    source = await session(native_id="ours", registered=True)
    await session(fork_of="ours")
    await harness.call(commands.Delete(), source)
    assert harness.agent.deleted == []


async def test_an_unknown_agent_is_refused(harness: RunnerHarness) -> None:
    reply = await harness.call(commands.ListConversations(agent="nobody"))
    assert reply.error is not None
    assert reply.error.code is ErrorCode.AGENT_UNKNOWN


async def test_the_demo_agents_conversations_are_found_and_its_files_stay(
    harness: RunnerHarness, home: Path, project: Path
) -> None:
    native = new_id()
    folder = harness.runner.state_dir("demo")
    history = History.create(str(folder), native, str(project))
    history.add({"role": "user", "anchor": "1", "text": "remember the blue door"})
    history.add({"role": "agent", "anchor": "2", "text": "I will"})
    (found,) = await harness.listed(agent="demo")
    assert (found["nativeId"], found["title"]) == (native, "remember the blue door")
    assert await harness.listed(agent="demo", directory=str(home)) == []
    state = await harness.imported(native, agent="demo", id=native)
    assert (state.seq, state.last_message) == (2, "I will")
    path = folder / f"{native}.jsonl"
    before = path.read_bytes()
    await harness.call(commands.Delete(), native)
    assert os.path.exists(path)
    assert path.read_bytes() == before
    refused = (await harness.import_("../../token", agent="demo")).error
    assert refused is not None
    assert refused.code is ErrorCode.INVALID_ID


# -- directories


async def create(harness: RunnerHarness, directory: Path, **fields: Any) -> Reply:
    spec = SessionSpec(
        id=new_id(), machine_id="m", directory=str(directory), agent=harness.agent.name, **fields
    )
    return await harness.call(commands.Create(spec=spec), spec.id)


def refusal(reply: Reply) -> tuple[ErrorCode, int]:
    assert reply.error is not None
    return reply.error.code, reply.error.status


NOT_ALLOWED = (ErrorCode.DIRECTORY_NOT_ALLOWED, 422)


async def test_a_session_cannot_be_created_imported_or_extended_into_the_home(
    harness: RunnerHarness, home: Path, project: Path
) -> None:
    harness.agent.store("chat-1", "hello")
    for place in (home, home / "agents", home.parent, Path("/")):
        (home / "agents").mkdir(exist_ok=True)
        assert refusal(await create(harness, place)) == NOT_ALLOWED
        assert refusal(await create(harness, project, additional_directories=(str(place),))) == NOT_ALLOWED
        harness.agent.directory = place
        assert refusal(await harness.import_("chat-1")) == NOT_ALLOWED
        assert await harness.listed() == []
    assert harness.agent.plans == []


async def test_a_fork_cannot_move_into_the_home(harness: RunnerHarness, home: Path, project: Path) -> None:
    fork = Fork(session_id=new_id(), seq=0, native_id=None)
    assert refusal(await create(harness, home, fork=fork)) == NOT_ALLOWED


async def test_a_link_swapped_in_after_the_creation_is_noticed_at_the_next_launch(
    harness: RunnerHarness, home: Path, project: Path
) -> None:
    reply = await create(harness, project)
    assert reply.state is not None
    session = reply.state.id
    await harness.call(commands.Stop(), session)
    project.rmdir()
    project.symlink_to(home)
    assert refusal(await harness.call(commands.Resume(), session)) == NOT_ALLOWED
    item = QueueItem(id=new_id(), text="cat token", created_at=1)
    assert (await harness.call(commands.Send(item=item), session)).error is None
    actor = harness.runner.actor(session)
    assert actor is not None
    await eventually(lambda: not actor.state.queue)
    assert actor.state.status is SessionStatus.FAILED
    assert "Farsteer's home" in (actor.state.error or "")
    assert len(harness.agent.plans) == 1, "no second process was started"


async def test_an_additional_directory_is_checked_at_each_launch(
    harness: RunnerHarness, home: Path, project: Path, tmp_path: Path
) -> None:
    more = tmp_path / "more"
    more.mkdir()
    (tmp_path / "link").symlink_to(more)
    reply = await create(harness, project, additional_directories=(str(tmp_path / "link"),))
    assert reply.state is not None
    assert harness.agent.plans[-1].additional_directories == (str(more),)
    await harness.call(commands.Stop(), reply.state.id)
    more.rmdir()
    more.symlink_to(home)
    assert refusal(await harness.call(commands.Resume(), reply.state.id)) == NOT_ALLOWED


async def test_roots_that_have_become_narrower_hold_for_existing_sessions(
    harness: RunnerHarness, home: Path, project: Path, tmp_path: Path
) -> None:
    reply = await create(harness, project)
    assert reply.state is not None
    await harness.runner.close()
    (home / "runner.toml").write_text(f'roots = ["{tmp_path / "elsewhere"}"]\n')
    await harness.open()
    await harness.runner.handle_welcome(Welcome(acked={reply.state.id: reply.state.seq}))
    assert refusal(await harness.call(commands.Resume(), reply.state.id)) == NOT_ALLOWED
