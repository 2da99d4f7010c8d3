"""One message of every kind in each direction, and a call with every command.

As a script it writes them as frames, with the version of farsteer that it is run with. It must run with every release:
a kind that a release does not have is left out, and what a release added comes last.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec

from farsteer.core import commands
from farsteer.core.approvals import Answer, Outcome
from farsteer.core.capabilities import AgentInfo, MachineInfo
from farsteer.core.errors import ErrorCode, ErrorRecord
from farsteer.core.events import Delta, DeltaKind
from farsteer.core.modes import PermissionMode, ReasoningEffort
from farsteer.core.queue import Attachment, ItemState, QueueItem
from farsteer.core.session import SessionSpec, SessionState
from farsteer.link import messages
from farsteer.link.frames import encode_frame

SESSION = "0f9d4a52-5c1e-4f6e-9d3a-0c8b8f0d1a11"
MACHINE = "8f14e45f-ceea-467f-a8f5-000000000001"
_AGENT = AgentInfo(name="demo", title="Demo", available=True, version="1", models=("one",))
_INFO = MachineInfo(
    id=MACHINE, host="box", platform="linux", version="0", agents=(_AGENT,), roots=("/work",), name="Box"
)
_ITEM = QueueItem(
    id="item", text="hello", created_at=1, local_id="local",
    attachments=(Attachment(name="a.txt", data="aGVsbG8=", mime_type="text/plain", size=5),),
)  # fmt: skip
_STATE = SessionState(id=SESSION, agent="demo", directory="/work", seq=2, native_id="native", title="Title")
_SPEC = SessionSpec(id=SESSION, machine_id=MACHINE, directory="/work", agent="demo")
_ENTRY = messages.EncodedEntry(2, "notice", msgspec.Raw(b'{"seq":2,"content":{"kind":"notice","text":"x"}}'))


def to_hub() -> Iterator[tuple[str, Any]]:
    yield "hello", messages.Hello(machine=_INFO, sessions={SESSION: 2}, key=b"k" * 32, protocol=2)
    yield "proof", messages.Proof(signature=b"s" * 64)
    yield "events", messages.Events(session=SESSION, entries=[_ENTRY], state=_STATE)
    yield (
        "deltas",
        messages.Deltas(session=SESSION, deltas=[Delta(message_id="m", kind=DeltaKind.MESSAGE, text="Hel")]),
    )
    yield (
        "reply",
        messages.Reply(
            id=7,
            logs=[messages.LogLine(1, "launch", "demo is ready")],
            state=_STATE,
            seq=2,
            result={"a": [1]},
        ),
    )
    yield (
        "reply_with_error",
        messages.Reply(
            id=8,
            error=ErrorRecord(code=ErrorCode.AGENT_DIED, message="gone", status=422, details={"exit": 1}),
        ),
    )
    yield "ping", messages.Ping()
    if hasattr(messages, "Goodbye"):
        yield "goodbye", messages.Goodbye()
        yield "unsupported", messages.Unsupported(kind="news")


def to_runner() -> Iterator[tuple[str, Any]]:
    yield "challenge", messages.Challenge(nonce=b"n" * 32)
    yield "welcome", messages.Welcome(acked={SESSION: 2}, deleted=["gone"], foreign=["other"])
    yield "ack", messages.Ack(session=SESSION, seq=2)
    for number, command in enumerate(_commands(), 1):
        yield (
            f"call_{type(command).__name__.lower()}",
            messages.Call(id=number, session=SESSION, command=command),
        )
    yield "pong", messages.Pong()
    yield "refused", messages.Refused(reason="update farsteer")
    if hasattr(messages, "IdentityClaimed"):
        yield "identity_claimed", messages.IdentityClaimed(host="laptop")
        yield "unsupported", messages.Unsupported(kind="news")


def _commands() -> Iterator[commands.Command]:
    yield commands.Create(spec=_SPEC)
    yield commands.Send(item=_ITEM)
    yield commands.SendNow(item_id="item")
    yield commands.Cancel(item_id="item")
    yield commands.Abort()
    yield commands.Stop()
    yield commands.Resume()
    yield commands.Prewarm()
    yield commands.Rewind(first_seq=2, cut_at="anchor", files_at="item", by="me")
    yield commands.AnswerApproval(
        approval_id="approval", answer=Answer(outcome=Outcome.APPROVED, option_id="y")
    )
    yield commands.Configure(
        permission_mode=PermissionMode.YOLO, model="one", effort=ReasoningEffort.HIGH, title="New"
    )
    yield commands.Delete()
    yield commands.ListConversations(agent="demo", directory="/work", limit=3)
    if hasattr(commands, "SwitchAgent"):
        yield commands.SwitchAgent(agent="demo", model="one")
    if hasattr(commands, "Settle"):
        yield commands.Settle(item_id="item", state=ItemState.CANCELLED, checked=2, reason="by the sender")
        yield commands.DescribeSessions(session_ids=[SESSION])
        yield commands.Adopt(acked=2)
    if hasattr(commands, "ShowWorktree"):
        yield commands.ShowWorktree()
        yield commands.DiffWorktree(path="a.txt", offset=1, limit=2)
        yield commands.MergeWorktree(into="main", force=True)
        yield commands.RebaseWorktree(onto="main")
        yield commands.NameBranch(name="fix")
        yield commands.DiscardWorktree(force=True)
        yield commands.ListWorktrees()
        yield commands.CleanWorktrees(paths=["/srv/fix"], force=True)
    if hasattr(commands, "FileCommand"):
        from farsteer.core import file_commands

        yield file_commands.ListDirectory(path="src", offset=3)
        yield file_commands.ReadFile(path="src/a.py", offset=1, length=2)
        yield file_commands.ListChanges()
        yield file_commands.ReadDiff(path="b.py", old_path="a.py")
        yield file_commands.BrowseDirectories(path="/work")


if __name__ == "__main__":
    for direction, examples in (("to_hub", to_hub()), ("to_runner", to_runner())):
        for name, message in examples:
            (Path(sys.argv[1]) / f"{direction}_{name}.json").write_bytes(encode_frame(message) + b"\n")
