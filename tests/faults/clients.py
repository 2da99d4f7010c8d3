"""Clients that do everything one can do with sessions, at random, and the ledger of what they were told."""

from __future__ import annotations

import asyncio
import json
import random
import re
from base64 import b64encode
from collections import Counter
from collections.abc import Awaitable, Callable, Coroutine
from contextlib import suppress
from typing import Any
from uuid import uuid4

import httpx
import psutil

from farsteer import AsyncClient
from farsteer.core import api
from farsteer.core.errors import FarsteerError, Internal, MachineOffline, NotFound
from farsteer.core.events import UserMessage
from farsteer.core.modes import PermissionMode
from farsteer.core.queue import Delivery, ItemState
from tests.faults.deployment import SECONDS, TOKEN, Deployment, Name
from tests.faults.live_view import LiveView, is_gone
from tests.support.eventually import eventually
from tests.support.processes import describe

SESSIONS = 3
MAX_SESSIONS = 5
_UNREACHABLE = (FarsteerError, httpx.HTTPError, OSError)
"""What a client gets from a hub that is being killed."""
_NAME = re.compile(r"r\d+m\d+")


class Clients:
    """Sends messages and steers sessions. Whoever gets no answer asks again, as a careful client does."""

    def __init__(self, deployment: Deployment, rng: random.Random) -> None:
        self.operations: Counter[str] = Counter()
        self.outcomes: Counter[str] = Counter()
        self.sent: dict[str, dict[str, str]] = {}
        """The item of each accepted message, by session and local id."""
        self._texts: dict[str, tuple[str, list[api.NewAttachment], Delivery]] = {}
        self._deleted: set[str] = set()
        self._lost: set[str] = set()
        """Sessions that a hub which was set back does not know: its machine has them."""
        self._settled: dict[str, ItemState] = {}
        """Outcomes that the hub has told, by item."""
        self._deployment = deployment
        self._client = deployment.client
        self._random = rng
        self._tasks: set[asyncio.Task[None]] = set()
        self._answering: set[str] = set()
        self._follower = AsyncClient(deployment.url, TOKEN)
        self.view = LiveView(self._follower)
        self._following: asyncio.Task[None] | None = None

    async def __aenter__(self) -> Clients:
        self._following = asyncio.create_task(self.view.run())
        for _ in range(SESSIONS):
            await self._create()
        return self

    async def __aexit__(self, *_: object) -> None:
        tasks = [*self._tasks, *([self._following] if self._following else [])]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await self._follower.aclose()

    @property
    def sessions(self) -> list[str]:
        return [*self.sent]

    # -- messages

    async def send(self, name: str) -> None:
        session = self._random.choice(self.sessions)
        self._texts[name] = self._new_message(name)
        try:
            self.sent[session][name] = (await self._accepted(session, name)).id
        except (NotFound, KeyError):
            assert session in self._deleted, f"{session} is gone"
            self.outcomes["deleted"] += 1
        self.operations["send"] += 1

    async def _accepted(self, session: str, name: str) -> api.MessageAccepted:
        """Send a message again with the same local id until the hub has accepted it."""
        text, attachments, delivery = self._texts[name]
        answer = await self._insist(
            lambda: self._client.send(
                session, text, local_id=name, attachments=attachments, delivery=delivery
            )
        )
        known = self.sent.get(session, {}).get(name, answer.id)
        assert known == answer.id, f"{name} was accepted twice"
        return answer

    async def _insist(self, call: Callable[[], Awaitable[Any]]) -> Any:
        """Repeat a call until the hub answers it. Raises what the hub answers, unless it is about to stop."""
        async with asyncio.timeout(SECONDS):
            while True:
                try:
                    return await call()
                except _UNREACHABLE as error:
                    if isinstance(error, Internal) or (
                        isinstance(error, FarsteerError) and error.status < 500
                    ):
                        raise
                    self._deployment.check_supervisors()
                await asyncio.sleep(0.02)

    def _new_message(self, name: str) -> tuple[str, list[api.NewAttachment], Delivery]:
        kind = self._random.randrange(7)
        file = api.NewAttachment(name=f"{name}.txt", data=b64encode(name.encode() * 50).decode())
        text = (
            f"say {name}", f"say {name}", f"think {name}\nslow 2", f"write {name}.txt {name}",
            f"work 2 0.01\nsay {name}", f"say {name}", f"say {name}",
        )[kind]  # fmt: skip
        delivery = self._random.choice((*Delivery, Delivery.QUEUE, Delivery.QUEUE, Delivery.QUEUE))
        return text, [file] if kind == 5 else [], delivery

    # -- other operations, of which each may fail

    def act(self) -> str:
        """Begin a random operation. Returns its name."""
        name = self._random.choices([*_OPERATIONS], [*_OPERATIONS.values()])[0]
        session = self._random.choice(self.sessions)
        self._begin(name, getattr(self, f"_{name}")(session))
        return name

    def _begin(self, name: str, work: Coroutine[Any, Any, None]) -> None:
        async def attempt() -> None:
            try:
                await work
                self.operations[name] += 1
            except Internal:
                raise
            except _UNREACHABLE:
                self.operations[f"{name} refused"] += 1

        task = asyncio.create_task(attempt())
        self._tasks.add(task)

    async def _create(self, _: str = "") -> None:
        if len(self.sent) >= MAX_SESSIONS:
            return
        machines = await self._insist(self._client.machines)
        request = api.CreateSession(
            machine_id=machines[0].id, directory=str(self._deployment.directory), agent="demo",
            permission_mode=PermissionMode.DEFAULT,
        )  # fmt: skip
        created: api.SessionCreated | None = None
        while created is None:
            created = await self._attempt_creation(request)
        self.sent.setdefault(created.session_id, {})

    async def _attempt_creation(self, request: api.CreateSession) -> api.SessionCreated | None:
        """A creation that failed, for example because its agent was killed, leaves nothing behind."""
        key = str(uuid4())
        try:
            return await self._insist(lambda: self._client.create_session(request, idempotency_key=key))
        except Internal:
            raise
        except FarsteerError:
            await asyncio.sleep(0.05)
            return None

    async def _fork(self, session: str) -> None:
        if len(self.sent) < MAX_SESSIONS:
            fork = await self._client.fork(session)
            self.sent.setdefault(fork.id, {})

    async def _import(self, _: str) -> None:
        if len(self.sent) >= MAX_SESSIONS:
            return
        native_id = str(uuid4())
        records = (
            {"role": "about", "directory": str(self._deployment.directory)},
            {"role": "user", "anchor": f"u{native_id}", "text": "say something"},
            {"role": "agent", "anchor": f"a{native_id}", "text": "something"},
        )
        folder = self._deployment.root / "runner" / "agents" / "demo"
        folder.mkdir(parents=True, exist_ok=True)
        (folder / f"{native_id}.jsonl").write_text("".join(json.dumps(one) + "\n" for one in records))
        machines = await self._insist(self._client.machines)
        session = await self._client.adopt(machines[0].id, "demo", native_id)
        self.sent.setdefault(session.id, {})

    async def _delete(self, session: str) -> None:
        if len(self.sent) <= SESSIONS:
            return
        names = self.sent.pop(session)
        self._deleted.add(session)
        self.outcomes["deleted"] += len(names)
        set_backs = self._deployment.set_backs["hub"]
        with suppress(NotFound):
            await self._insist(lambda: self._client.delete(session))
        gone = await self._insist(lambda: is_gone(self._client, session))
        assert gone or self._deployment.set_backs["hub"] > set_backs, f"{session} is deleted and there"
        self.view.forget(session)

    async def _cancel(self, session: str) -> None:
        if items := [*self.sent[session].values()][-3:]:
            item = self._random.choice(items)
            await self._client.cancel(session, item)
            self._settled[item] = ItemState.CANCELLED

    async def _send_now(self, session: str) -> None:
        if items := [*self.sent[session].values()][-3:]:
            await self._client.send_now(session, self._random.choice(items))

    async def _rewind(self, session: str) -> None:
        log = self.view.logs.get(session)
        shown = (
            [] if log is None else [e.seq for e in log.checker.visible if isinstance(e.content, UserMessage)]
        )
        if shown:
            files = self._random.random() < 0.5
            await self._client.rewind(session, self._random.choice(shown[-3:]), restore_files=files)

    async def _abort(self, session: str) -> None:
        await self._client.abort(session)

    async def _stop(self, session: str) -> None:
        await self._client.stop(session)

    async def _resume(self, session: str) -> None:
        await self._client.resume(session)

    async def _configure(self, session: str) -> None:
        modes = (PermissionMode.DEFAULT, PermissionMode.ACCEPT_EDITS, PermissionMode.PLAN)
        await self._client.set_permission_mode(session, self._random.choice(modes))

    async def _answer(self, session: str, approval: str) -> None:
        try:
            if self._random.random() < 0.7:
                await self._client.approve(session, approval)
            else:
                await self._client.deny(session, approval)
        except FarsteerError as error:
            if self.view.gaps and error.status < 500 and not isinstance(error, MachineOffline):
                # Its end may be lost.
                self.view.close_approval(session, approval)
            raise
        finally:
            self._answering.discard(approval)

    # -- waiting

    async def wait(self, *, until_idle: bool) -> None:
        """Answer approvals until the ordered kill has happened, or until every message has an outcome."""
        try:
            async with asyncio.timeout(SECONDS):
                while not await self._is_idle():
                    if not until_idle and not self._deployment.is_armed:
                        return
                    self.view.changed.clear()
                    with suppress(TimeoutError):
                        async with asyncio.timeout(0.25):
                            await self.view.changed.wait()
        except TimeoutError:
            raise AssertionError(await self._describe_waiting()) from None

    async def _is_idle(self) -> bool:
        self._check_tasks()
        self._answer_open()
        waiting = self._waiting()
        if waiting:
            await self._ask_outcomes(waiting)
            return False
        if self._tasks or self._open_turns():
            return False
        return await self._has_caught_up()

    async def _has_caught_up(self) -> bool:
        """Whether the hub agrees that no turn runs, and the subscriber has been told everything."""
        try:
            for session in self.sessions:
                view = await self._client.session(session)
                log = self.view.logs.get(session)
                if view.turn_id is not None or (log is not None and log.checker.seq != view.seq):
                    return False
        except _UNREACHABLE:
            return False
        return True

    def _check_tasks(self) -> None:
        assert self._following is not None
        self._deployment.check_supervisors()
        if self._following.done():
            self._following.result()
        for task in [task for task in self._tasks if task.done()]:
            self._tasks.discard(task)
            task.result()

    def _known_logs(self) -> dict[str, Any]:
        return {session: log for session, log in self.view.logs.items() if session not in self._deleted}

    def _open_turns(self) -> list[str]:
        """Return the sessions with a turn that runs. After a gap only the hub knows: the end may be lost."""
        logs = {} if self.view.gaps else self._known_logs()
        return [session for session, log in logs.items() if log.checker.state.turn_id]

    def _answer_open(self) -> None:
        for session, log in self._known_logs().items():
            for approval in log.checker.open_approvals - self._answering:
                self._answering.add(approval)
                self._begin("answer", self._answer(session, approval))

    def outcome(self, session: str, item: str) -> ItemState | None:
        log = self.view.logs.get(session)
        history = None if log is None else log.checker.items.get(item)
        if history is not None and history.states and not self.view.gaps:
            return history.outcome
        return (history and history.outcome) or self._settled.get(item)

    def _waiting(self) -> list[tuple[str, str]]:
        return [
            (session, name)
            for session, names in self.sent.items()
            for name, item in names.items()
            if self.outcome(session, item) is None
        ]

    async def _ask_outcomes(self, waiting: list[tuple[str, str]]) -> None:
        """Ask the hub about messages that are not in the log: it may have settled them alone."""
        for session, name in waiting:
            item = self.sent.get(session, {}).get(name, "")
            log = self.view.logs.get(session)
            if not item or (log is not None and item in log.checker.items and not self.view.gaps):
                continue
            with suppress(*_UNREACHABLE):
                text, attachments, delivery = self._texts[name]
                told = await self._client.send(
                    session, text, local_id=name, attachments=attachments, delivery=delivery
                )
                if told.state.final:
                    self._settled[item] = told.state

    async def _describe_waiting(self) -> str:
        lines: list[str] = []
        for session, name in self._waiting():
            item = self.sent[session][name]
            log = self.view.logs.get(session)
            history = None if log is None else log.checker.items.get(item)
            with suppress(*_UNREACHABLE):
                view = await self._client.session(session)
                lines.append(
                    f"{name} ({item}) of {session}: {history}; {view.status}, turn {view.turn_id}, {view.queue}"
                )
        running = [f"the turn of {session}" for session in self._open_turns()]
        return "\n".join(
            ["no outcome after 40 s", *lines, *running, *map(str, self._tasks), self._deployment.logs()]
        )

    # -- databases that are set back

    def expect_set_back(self, name: Name) -> None:
        self.view.journal_is_older |= name == "runner"
        # One when the hub starts, and one if only its runner can tell it.
        self.view.gaps_allowed += 2 * (name == "hub")

    def handle_set_back(self, name: Name) -> None:
        """A hub that was set back has lost what it accepted after the copy was made. The rest keeps its promises."""
        if name == "runner":
            return
        self._settled.clear()
        items, sessions = self._deployment.stored_items(), self._deployment.stored_sessions()
        self._lost -= sessions
        for session in {*self.sent} - sessions:
            self._lost.add(session)
            self.outcomes["lost with the hub's database"] += len(self.sent.pop(session))
        for session, names in self.sent.items():
            self.sent[session] = {name: item for name, item in names.items() if item in items}
            self.outcomes["lost with the hub's database"] += len(names) - len(self.sent[session])

    async def _stored_outcomes(self) -> dict[str, ItemState]:
        """Everything that the hub has gets an outcome, also what it has again and no client asks for."""
        try:
            await eventually(lambda: not self._open_items(), SECONDS)
        except TimeoutError:
            raise AssertionError(f"the hub has no outcome of {self._open_items()}") from None
        return {id: state for id, (_, state) in self._deployment.stored_items().items()}

    def _open_items(self) -> dict[str, tuple[str, ItemState]]:
        return {id: item for id, item in self._deployment.stored_items().items() if not item[1].final}

    async def _settle_foreign(self) -> None:
        """Adopt or end every session that the hub has lost and the machine has."""
        if not self._deployment.set_backs["hub"]:
            return
        await eventually(self._deployment.is_connected, SECONDS)
        (machine,) = await self._insist(self._client.machines)
        foreign = {one.id for one in await self._insist(lambda: self._client.foreign_sessions(machine.id))}
        assert foreign >= self._lost, f"neither hub nor machine has {self._lost - foreign}"
        for session in sorted(foreign):
            if session in self._lost and len(self.sent) < MAX_SESSIONS and self._random.random() < 0.5:
                await self._insist(
                    lambda session=session: self._client.adopt_foreign_session(machine.id, session)
                )
                self.sent[session] = {}
                self.operations["adoption"] += 1
            else:
                await self._insist(
                    lambda session=session: self._client.end_foreign_session(machine.id, session)
                )
                self._deleted.add(session)
                self.operations["end of a foreign session"] += 1
        self._lost.clear()
        while len(self.sent) < SESSIONS:
            await self._create()

    # -- checking

    async def check(self) -> None:
        """Everything is idle: compare what was sent, what the log says and what the agent did."""
        executed, unlearned = self._executed(), self._deployment.unlearned
        twice = [name for name, count in executed.items() if count > 1 + unlearned[name]]
        assert not twice, f"executed more than once: {twice}"
        await self._settle_foreign()
        await self._delete_strangers()
        stored = await self._stored_outcomes() if self._deployment.set_backs else {}
        for session, names in [*self.sent.items()]:
            if (log := self.view.logs.get(session)) is not None:
                log.checker.check_idle()
            await self._insist(lambda session=session: self.view.check_stored(self._client, session))
            for name, item in names.items():
                outcome = stored.get(item) or self.outcome(session, item)
                if outcome is ItemState.DELIVERED:
                    assert executed[name] >= 1, f"{name} is delivered, and the agent does not have it"
                elif outcome is not ItemState.UNKNOWN and not unlearned[name]:
                    assert executed[name] == 0, f"{name} is {outcome}, and the agent has it"
            await eventually(lambda session=session: self._has_no_queue(session), SECONDS)
        try:
            await eventually(self._has_no_orphans, SECONDS)
        except TimeoutError:
            raise AssertionError(self._describe_agents()) from None

    async def _has_no_queue(self, session: str) -> bool:
        """What a hub that was set back has lost, its runner may still have, and finish."""
        self._answer_open()
        return await self._insist(lambda: self._client.queue(session)) == []

    def _describe_agents(self) -> str:
        agents = self._deployment.agents()
        launches: list[str] = []
        for agent in agents:
            with suppress(psutil.Error):
                launches.append(f"  {agent.pid} is the launch {agent.environ().get('FARSTEER_LAUNCH')}")
        return "\n".join(
            [
                f"agents of runner {self._deployment.runner_pid} with sessions {self.sessions}:",
                describe(agents),
                *launches,
                self._deployment.logs(),
            ]
        )

    async def _delete_strangers(self) -> None:
        """Delete sessions that were created by a request whose answer was lost."""
        found = await self._insist(self._list_sessions)
        for session in set(found) - set(self.sent):
            await self._insist(lambda session=session: self._client.delete(session))
            self._deleted.add(session)
            self.view.forget(session)

    async def _list_sessions(self) -> list[str]:
        return [session.id async for session in self._client.sessions()]

    def _executed(self) -> Counter[str]:
        """What the agents have recorded."""
        file = self._deployment.root / "ledger"
        lines = file.read_text().splitlines() if file.exists() else []
        return Counter(name for line in lines for name in {*_NAME.findall(line)})

    def _has_no_orphans(self) -> bool:
        runner, agents = self._deployment.runner_pid, self._deployment.agents()
        with suppress(psutil.Error):
            return len(agents) <= len(self.sent) and all(agent.ppid() == runner for agent in agents)
        return False

    def count_outcomes(self) -> Counter[str]:
        return self.outcomes + Counter(
            str(self.outcome(session, item))
            for session, names in self.sent.items()
            for item in names.values()
        )


_OPERATIONS = {
    "cancel": 3, "send_now": 2, "abort": 2, "stop": 1, "resume": 1, "configure": 1, "rewind": 2, "fork": 2, "import": 1,
    "delete": 0.7, "create": 0.5,
}  # fmt: skip
