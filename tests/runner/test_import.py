"""What an agent remembers from before we knew it becomes a session: once, whole, and left where it was."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any, ClassVar

import pytest

from farsteer.agents import registry
from farsteer.agents.demo.history import History
from farsteer.core import commands
from farsteer.core.capabilities import Capabilities
from farsteer.core.errors import AgentError, ErrorCode
from farsteer.core.events import AgentMessage, SessionEvent, SessionStatus, UserMessage
from farsteer.core.ids import new_id
from farsteer.core.launch import LaunchMode
from farsteer.core.queue import QueueItem
from farsteer.core.session import SessionSpec, SessionState, StoredConversation
from farsteer.link.messages import Call, Reply
from farsteer.runner.runner import Runner
from tests.runner.scripted import ScriptedAdapter, ScriptedLaunch
from tests.support.eventually import eventually


class Rememberer(ScriptedAdapter):
    """A scripted agent with conversations of its own."""

    name: ClassVar[str] = "rememberer"
    capabilities = Capabilities(resume=True, import_history=True)

    def __init__(self, directory: Path) -> None:
        super().__init__()
        self.directory = directory
        self.stored: dict[str, list[SessionEvent]] = {}
        self.discarded: list[str] = []

    def remember(self, native_id: str, *texts: str) -> None:
        said = (UserMessage(item_id=text, text=text) if n % 2 == 0 else AgentMessage(message_id=text, text=text)
                for n, text in enumerate(texts))  # fmt: skip
        self.stored[native_id] = list(said)

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
        self.discarded.append(native_id)


class Desk:
    """A runner that has no link, and calls for it."""

    def __init__(self, home: Path, agent: Rememberer) -> None:
        self.home = home
        self.agent = agent
        self.runner: Runner

    async def open(self) -> None:
        self.runner = await Runner.open(self.home)

    async def call(self, command: commands.Command, session: str = "") -> Reply:
        return await self.runner.handle(Call(id=1, session=session, command=command))

    async def adopt(self, native_id: str, **fields: Any) -> Reply:
        spec = SessionSpec(
            **{"id": new_id(), "machine_id": "m", "directory": "", "agent": self.agent.name, **fields},
            native_id=native_id,
        )
        return await self.call(commands.Create(spec=spec), spec.id)

    async def adopted(self, native_id: str, **fields: Any) -> SessionState:
        reply = await self.adopt(native_id, **fields)
        assert reply.error is None, reply.error
        assert reply.state is not None
        assert reply.seq == reply.state.seq
        return reply.state

    async def listed(self, **wanted: Any) -> list[dict[str, Any]]:
        reply = await self.call(commands.ListConversations(**{"agent": self.agent.name, **wanted}))
        assert reply.error is None, reply.error
        assert reply.seq == 0, "it caused no event of any session"
        return reply.result

    async def continued(self, session: str) -> ScriptedLaunch:
        """The launch that a message to this session causes."""
        item = QueueItem(id=new_id(), text="go on", created_at=1)
        assert (await self.call(commands.Send(item=item), session)).error is None
        return await self.agent.launch()


@pytest.fixture
async def desk(home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Desk]:
    agent = Rememberer(tmp_path)
    known = registry.adapter
    monkeypatch.setattr(registry, "adapter", lambda name: agent if name == agent.name else known(name))
    desk = Desk(home, agent)
    await desk.open()
    yield desk
    await desk.runner.close()


async def test_a_conversation_becomes_a_session_with_its_history(desk: Desk, tmp_path: Path) -> None:
    desk.agent.remember("chat-1", "what is 6 * 7?", "42")
    state = await desk.adopted("chat-1")
    assert (state.status, state.seq) == (SessionStatus.STOPPED, 2)
    assert (state.native_id, state.registered) == ("chat-1", True)
    assert (state.title, state.last_message) == ("what is 6 * 7?", "42")
    assert state.directory == str(tmp_path.resolve())
    assert not state.queue
    assert desk.agent.plans == [], "nothing is started before somebody has something to say"


async def test_the_next_message_resumes_it_under_its_own_name(desk: Desk) -> None:
    desk.agent.remember("chat-1", "hello", "hi")
    state = await desk.adopted("chat-1")
    launch = await desk.continued(state.id)
    assert (launch.plan.decision.start, launch.plan.decision.native_id) == (LaunchMode.RESUME, "chat-1")
    assert (await launch.prompt()).text == "go on"


async def test_a_title_that_was_given_stays(desk: Desk) -> None:
    desk.agent.remember("chat-1", "hello", "hi")
    state = await desk.adopted("chat-1", title="mine")
    assert (state.title, state.title_by_user) == ("mine", True)


async def test_the_list_says_what_is_a_session_already(desk: Desk) -> None:
    desk.agent.remember("chat-1", "hello")
    desk.agent.remember("chat-2", "hello")
    state = await desk.adopted("chat-2")
    assert [(one["nativeId"], one["sessionId"]) for one in await desk.listed()] == [
        ("chat-1", None),
        ("chat-2", state.id),
    ]
    assert len(await desk.listed(limit=1)) == 1


async def test_a_conversation_is_adopted_once(desk: Desk) -> None:
    desk.agent.remember("chat-1", "hello")
    desk.agent.gate.clear()
    both = [asyncio.create_task(desk.adopt("chat-1")) for _ in range(2)]
    done, _ = await asyncio.wait(both, return_when=asyncio.FIRST_COMPLETED)
    refused = done.pop().result()
    desk.agent.gate.set()
    replies = [await task for task in both]
    assert refused.error is not None
    assert refused.error.code is ErrorCode.CONFLICT
    (state,) = [reply.state for reply in replies if reply.error is None]
    assert state is not None
    again = (await desk.adopt("chat-1")).error
    assert again is not None
    assert (again.status, again.details) == (409, {"session": state.id})


async def test_the_same_creation_asked_for_again_is_the_same_session(desk: Desk) -> None:
    desk.agent.remember("chat-1", "hello")
    id = new_id()
    first = await desk.adopted("chat-1", id=id)
    assert await desk.adopted("chat-1", id=id) == first


async def test_what_cannot_be_adopted_leaves_nothing(desk: Desk, tmp_path: Path) -> None:
    missing = await desk.adopt("chat-0")
    assert missing.error is not None
    assert missing.error.code is ErrorCode.CONVERSATION_MISSING
    assert missing.logs[-1].status == "error"
    desk.agent.remember("chat-1", "hello")
    desk.agent.directory = tmp_path / "gone"
    nowhere = await desk.adopt("chat-1")
    assert nowhere.error is not None
    assert nowhere.error.code is ErrorCode.DIRECTORY_MISSING
    desk.agent.directory = tmp_path
    assert (await desk.adopted("chat-1")).seq == 1, "and it can be tried again"


async def test_conversations_of_places_where_no_session_may_run_are_not_shown(
    desk: Desk, home: Path, tmp_path: Path
) -> None:
    inside = tmp_path / "inside"
    inside.mkdir()
    await desk.runner.close()
    (home / "runner.toml").write_text(f'roots = ["{inside}"]\n')
    await desk.open()
    desk.agent.remember("chat-1", "hello")
    assert await desk.listed() == []
    refused = (await desk.adopt("chat-1")).error
    assert refused is not None
    assert refused.code is ErrorCode.DIRECTORY_NOT_ALLOWED
    desk.agent.directory = inside / "was here"
    assert len(await desk.listed()) == 1


async def test_an_adoption_that_was_cut_off_can_be_repeated(desk: Desk) -> None:
    desk.agent.remember("chat-1", "hello")
    id = new_id()
    desk.agent.gate.clear()
    cut = asyncio.create_task(desk.adopt("chat-1", id=id))
    await eventually(lambda: bool(desk.runner.importing))
    cut.cancel()
    await asyncio.wait([cut])
    desk.agent.gate.set()
    state = SessionState(id=id, agent=desk.agent.name, directory="/")
    spec = SessionSpec(id=id, machine_id="m", directory="/", native_id="chat-1")
    await desk.runner._journal.create_session(spec, state)
    assert (await desk.adopted("chat-1", id=id)).seq == 1


async def test_an_adopted_session_is_there_after_a_restart(desk: Desk) -> None:
    desk.agent.remember("chat-1", "hello", "hi")
    state = await desk.adopted("chat-1")
    await desk.runner.close()
    await desk.open()
    actor = desk.runner.actor(state.id)
    assert actor is not None
    assert actor.state == state
    assert (await desk.listed())[0]["sessionId"] == state.id


async def test_deleting_a_session_leaves_a_conversation_that_was_there_before_us(desk: Desk) -> None:
    desk.agent.remember("chat-1", "hello")
    state = await desk.adopted("chat-1")
    assert (await desk.call(commands.Delete(), state.id)).error is None
    assert desk.runner.actor(state.id) is None
    assert desk.agent.discarded == []
    assert (await desk.listed())[0]["sessionId"] is None
    await desk.adopted("chat-1")


async def test_deleting_a_session_deletes_the_conversation_that_we_began(desk: Desk, tmp_path: Path) -> None:
    spec = SessionSpec(id=new_id(), machine_id="m", directory=str(tmp_path), agent=desk.agent.name)
    actor = await desk.runner.create_session(
        spec,
        SessionState(
            id=spec.id, agent=desk.agent.name, directory=str(tmp_path), native_id="ours", registered=True
        ),
    )
    assert not actor.state.queue
    await desk.call(commands.Delete(), spec.id)
    assert desk.agent.discarded == ["ours"]


async def test_a_conversation_that_a_fork_has_yet_to_begin_with_is_kept(desk: Desk, tmp_path: Path) -> None:
    place = str(tmp_path)

    async def session(**fields: Any) -> str:
        spec = SessionSpec(id=new_id(), machine_id="m", directory=place, agent=desk.agent.name)
        state = SessionState(id=spec.id, agent=desk.agent.name, directory=place, **fields)
        await desk.runner.create_session(spec, state)
        return spec.id

    source = await session(native_id="ours", registered=True)
    await session(fork_of="ours")
    await desk.call(commands.Delete(), source)
    assert desk.agent.discarded == []


async def test_an_agent_that_cannot_tell_says_so(desk: Desk) -> None:
    reply = await desk.call(commands.ListConversations(agent="nobody"))
    assert reply.error is not None
    assert reply.error.code is ErrorCode.AGENT_UNKNOWN


async def test_the_demo_agents_conversations_are_found_and_its_files_stay(
    desk: Desk, home: Path, tmp_path: Path
) -> None:
    native = new_id()
    folder = desk.runner.state_dir("demo")
    history = History.create(str(folder), native, str(tmp_path))
    history.add({"role": "user", "anchor": "1", "text": "remember the blue door"})
    history.add({"role": "agent", "anchor": "2", "text": "I will"})
    (found,) = await desk.listed(agent="demo")
    assert (found["nativeId"], found["title"]) == (native, "remember the blue door")
    assert await desk.listed(agent="demo", directory=str(home)) == []
    state = await desk.adopted(native, agent="demo", id=native)
    assert (state.seq, state.last_message) == (2, "I will")
    path = folder / f"{native}.jsonl"
    before = path.read_bytes()
    await desk.call(commands.Delete(), native)
    assert os.path.exists(path)
    assert path.read_bytes() == before
    refused = (await desk.adopt("../../token", agent="demo")).error
    assert refused is not None
    assert refused.code is ErrorCode.INVALID_ID
