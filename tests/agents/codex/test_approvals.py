"""Codex's requests as approvals: who is asked in which mode, and what Codex is answered."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import msgspec
import pytest

from farsteer.agents.base import ApprovalAsked, ApprovalWithdrawn, EventEmitted
from farsteer.agents.codex.approvals import PendingApprovals
from farsteer.agents.codex.protocol import FileChange, FileChangeItem, Request
from farsteer.agents.codex.settings import SettingsTracker
from farsteer.agents.turns import TurnOutput
from farsteer.core.approvals import Answer, Approval, ApprovalKind, Outcome, check_answer
from farsteer.core.errors import Conflict
from farsteer.core.events import Notice
from farsteer.core.modes import PermissionMode as Mode
from farsteer.core.modes import ToolKind

COMMAND = "item/commandExecution/requestApproval"
CHANGE = "item/fileChange/requestApproval"
PERMISSIONS = "item/permissions/requestApproval"
QUESTION = "item/tool/requestUserInput"
ELICITATION = "mcpServer/elicitation/request"


class Desk:
    """Approvals of a running turn, with what they wrote and asked."""

    def __init__(self, mode: Mode, root: str) -> None:
        self.output = TurnOutput()
        self.output.begin("turn")
        self.changes: dict[str, FileChangeItem] = {}
        self.written: list[Any] = []
        self.pending = PendingApprovals(
            self.output, SettingsTracker(mode, None, None), (root,), self.changes.get, self._write
        )
        self._outputs: list[Any] = []

    def _write(self, line: bytes) -> None:
        self.written.append(json.loads(line))

    def request(self, method: str, request_id: int = 0, **params: Any) -> None:
        given = {"threadId": "t", "itemId": "call", **params}
        self.pending.handle_request(
            Request(id=request_id, method=method, params=msgspec.Raw(json.dumps(given).encode()))
        )

    @property
    def outputs(self) -> list[Any]:
        self._outputs += self.output.drain()
        return self._outputs

    @property
    def asked(self) -> list[Approval]:
        return [one.approval for one in self.outputs if isinstance(one, ApprovalAsked)]

    @property
    def notices(self) -> list[Notice]:
        events = [one.event for one in self.outputs if isinstance(one, EventEmitted)]
        return [event for event in events if isinstance(event, Notice)]

    def answer(self, outcome: Outcome, option: str | None = None, **fields: Any) -> Any:
        """Answer the last approval and return the result that Codex gets."""
        approval = self.asked[-1]
        answer = check_answer(approval, Answer(outcome=outcome, option_id=option, **fields))
        return json.loads(self.pending.answer(approval, answer))["result"]


@pytest.fixture
def desk(tmp_path: Path) -> Desk:
    return Desk(Mode.DEFAULT, str(tmp_path))


def add_change(desk: Desk, *paths: str, kind: str = "add") -> None:
    desk.changes["call"] = FileChangeItem(
        id="call", changes=[FileChange(path=path, kind={"type": kind}, diff="x") for path in paths]
    )


@pytest.mark.parametrize(
    ("outcome", "option", "decision"),
    [
        (Outcome.APPROVED, None, "accept"),
        (Outcome.APPROVED_FOR_SESSION, None, "acceptForSession"),
        (Outcome.DENIED, None, "decline"),
        (Outcome.ABORT, None, "cancel"),
        (Outcome.DENIED, "cancel", "cancel"),
        (Outcome.APPROVED, "acceptForSession", "acceptForSession"),
    ],
)
def test_each_answer_to_a_command_is_a_decision(
    desk: Desk, outcome: Outcome, option: str | None, decision: str
) -> None:
    desk.request(COMMAND, command="/bin/bash -lc 'touch x'", cwd="/w")
    (approval,) = desk.asked
    assert (approval.title, approval.tool_call_id, approval.turn_id) == ("touch x", "call", "turn")
    assert approval.arguments == {"command": "touch x", "cwd": "/w"}
    assert desk.answer(outcome, option) == {"decision": decision}


def test_an_amendment_goes_back_as_codex_offered_it(desk: Desk) -> None:
    amendment = {"acceptWithExecpolicyAmendment": {"execpolicy_amendment": ["touch"]}}
    desk.request(COMMAND, command="touch x", availableDecisions=["accept", amendment, "cancel"])
    assert desk.answer(Outcome.APPROVED_FOR_SESSION) == {"decision": amendment}


def test_access_to_the_network_is_asked_for_by_host(desk: Desk) -> None:
    desk.request(COMMAND, networkApprovalContext={"host": "example.com", "protocol": "https"})
    (approval,) = desk.asked
    assert "example.com" in approval.title
    assert approval.tool_kind is ToolKind.FETCH


def test_a_file_change_shows_what_codex_announced(desk: Desk, tmp_path: Path) -> None:
    add_change(desk, str(tmp_path / "a.txt"))
    desk.request(CHANGE)
    (approval,) = desk.asked
    assert (approval.title, approval.tool_kind) == ("Create a.txt", ToolKind.EDIT)
    assert approval.arguments is not None
    assert approval.arguments["changes"][0]["diff"] == "x"
    assert desk.answer(Outcome.APPROVED_FOR_SESSION) == {"decision": "acceptForSession"}


def test_a_deletion_is_a_deletion(desk: Desk, tmp_path: Path) -> None:
    add_change(desk, str(tmp_path / "a.txt"), kind="delete")
    desk.request(CHANGE)
    assert desk.asked[0].tool_kind is ToolKind.DELETE


def test_accepted_edits_are_inside_of_the_directories_of_the_session(tmp_path: Path) -> None:
    inside, outside = str(tmp_path / "a.txt"), str(tmp_path.parent / "b.txt")
    for paths, is_allowed in (((inside,), True), ((inside, outside), False), ((), False)):
        desk = Desk(Mode.ACCEPT_EDITS, str(tmp_path))
        add_change(desk, *paths)
        desk.request(CHANGE)
        assert bool(desk.written) is is_allowed
        assert bool(desk.asked) is not is_allowed


def test_accepted_edits_do_not_grant_a_root(tmp_path: Path) -> None:
    desk = Desk(Mode.ACCEPT_EDITS, str(tmp_path))
    add_change(desk, str(tmp_path / "a.txt"))
    desk.request(CHANGE, grantRoot="/")
    assert desk.written == []
    assert desk.asked


def test_a_link_that_leads_out_is_outside(tmp_path: Path) -> None:
    (tmp_path / "out").symlink_to("/")
    desk = Desk(Mode.ACCEPT_EDITS, str(tmp_path))
    add_change(desk, str(tmp_path / "out" / "a.txt"))
    desk.request(CHANGE)
    assert desk.written == []


def test_a_path_with_a_null_character_is_asked_for(tmp_path: Path) -> None:
    desk = Desk(Mode.ACCEPT_EDITS, str(tmp_path))
    add_change(desk, f"{tmp_path}/a\0b")
    desk.request(CHANGE)
    assert desk.asked


@pytest.mark.parametrize("mode", [Mode.PLAN, Mode.READ_ONLY])
@pytest.mark.parametrize("method", [COMMAND, CHANGE, PERMISSIONS])
def test_a_read_only_session_denies_and_says_so(tmp_path: Path, mode: Mode, method: str) -> None:
    desk = Desk(mode, str(tmp_path))
    desk.request(method, permissions={"network": {"enabled": True}})
    assert desk.asked == []
    (line,) = desk.written
    assert line["result"] in ({"decision": "decline"}, {"permissions": {}, "scope": "turn"})
    assert [notice.code for notice in desk.notices] == ["read_only"]


@pytest.mark.parametrize("mode", [Mode.YOLO, Mode.BYPASS])
def test_yolo_accepts(tmp_path: Path, mode: Mode) -> None:
    desk = Desk(mode, str(tmp_path))
    desk.request(COMMAND, command="touch x")
    assert desk.written == [{"id": 0, "result": {"decision": "accept"}}]


def test_safe_yolo_does_not_lead_out_of_the_sandbox(tmp_path: Path) -> None:
    desk = Desk(Mode.SAFE_YOLO, str(tmp_path))
    desk.request(COMMAND, command="touch x")
    assert desk.written == []
    assert desk.asked


def test_permissions_are_granted_for_a_turn_or_the_session(desk: Desk) -> None:
    desk.request(PERMISSIONS, permissions={"network": {"enabled": True}}, reason="to fetch")
    assert desk.asked[0].title == "to fetch"
    assert desk.answer(Outcome.DENIED) == {"permissions": {}, "scope": "turn"}
    desk.request(PERMISSIONS, 1, permissions={"network": {"enabled": True}})
    assert desk.answer(Outcome.APPROVED_FOR_SESSION)["scope"] == "session"


def test_a_question_is_answered_or_left_open(desk: Desk) -> None:
    options = [{"label": "Red", "description": "warm"}, {"label": "Blue"}]
    asked = {"id": "q", "question": "Which?", "header": "Color", "options": options, "isSecret": True}
    desk.request(QUESTION, questions=[asked])
    (approval,) = desk.asked
    assert approval.kind is ApprovalKind.QUESTION
    assert approval.questions[0].choices == ("Red", "Blue")
    assert approval.meta is not None
    assert approval.meta["secret"] == ["q"]
    assert desk.answer(Outcome.APPROVED, answers={"q": ["Blue"]}) == {"answers": {"q": {"answers": ["Blue"]}}}
    desk.request(QUESTION, 1, questions=[asked])
    assert desk.answer(Outcome.DENIED) == {"answers": {}}


def test_an_mcp_tool_asks_in_the_form_of_a_question(desk: Desk) -> None:
    meta = {"codex_approval_kind": "mcp_tool_call", "persist": ["session", "always", "never"]}
    params: dict[str, Any] = {
        "serverName": "echo", "mode": "form", "message": "Run it?", "_meta": meta,
        "requestedSchema": {"type": "object", "properties": {}},
    }  # fmt: skip
    desk.request(ELICITATION, **params)
    options = [option.id for option in desk.asked[0].options]
    assert options == ["accept", "accept:session", "accept:always", "decline", "cancel"]
    assert desk.answer(Outcome.APPROVED, "accept:always")["_meta"] == {"persist": "always"}
    for outcome, action in ((Outcome.DENIED, "decline"), (Outcome.ABORT, "cancel")):
        desk.request(ELICITATION, 1, **params)
        assert desk.answer(outcome)["action"] == action


def test_a_form_of_an_mcp_server_gets_values_of_its_types(desk: Desk) -> None:
    properties = {
        "name": {"type": "string"}, "age": {"type": "integer"}, "height": {"type": "number"},
        "member": {"type": "boolean"}, "color": {"type": "string", "enum": ["r", "b"], "enumNames": ["Red", "Blue"]},
        "days": {"type": "array", "items": {"enum": ["mon", "tue"]}},
    }  # fmt: skip
    desk.request(
        ELICITATION,
        serverName="echo",
        mode="form",
        message="Who?",
        requestedSchema={"properties": properties},
    )
    answers = {
        "name": ["Ada"], "age": ["36"], "height": ["1.7"], "member": ["Yes"], "color": ["Blue"],
        "days": ["mon", "tue"],
    }  # fmt: skip
    assert desk.answer(Outcome.APPROVED, answers=answers) == {
        "action": "accept", "_meta": None,
        "content": {
            "name": "Ada", "age": 36, "height": 1.7, "member": True, "color": "b", "days": ["mon", "tue"],
        },
    }  # fmt: skip


def test_a_request_of_an_unknown_kind_is_refused_and_told(desk: Desk) -> None:
    desk.request("item/newThing/requestApproval")
    (line,) = desk.written
    assert line["error"]["code"] == -32601
    assert desk.asked == []
    assert len(desk.notices) == 1


@pytest.mark.parametrize(
    ("method", "params"),
    [
        (COMMAND, {"itemId": 5}), (QUESTION, {"questions": []}), (QUESTION, {"questions": "what"}),
        (ELICITATION, {"serverName": "x", "mode": "telepathy"}), (ELICITATION, {}),
    ],
)  # fmt: skip
def test_a_request_that_is_not_understood_is_never_allowed(
    desk: Desk, method: str, params: dict[str, Any]
) -> None:
    desk.request(method, **params)
    assert desk.written[0]["error"]["code"] == -32602
    assert desk.asked == []


def test_a_repeated_request_is_asked_once(desk: Desk) -> None:
    desk.request(COMMAND, command="touch x")
    desk.request(COMMAND, command="touch x")
    assert len(desk.asked) == 1


def test_a_resolved_request_is_withdrawn_and_cannot_be_answered(desk: Desk) -> None:
    desk.request(COMMAND, command="touch x")
    (approval,) = desk.asked
    desk.pending.handle_resolved(0)
    assert [one.approval_id for one in desk.outputs if isinstance(one, ApprovalWithdrawn)] == [approval.id]
    with pytest.raises(Conflict):
        desk.pending.answer(approval, Answer(outcome=Outcome.APPROVED, option_id="accept"))


def test_an_answer_is_given_once(desk: Desk) -> None:
    desk.request(COMMAND, command="touch x")
    desk.answer(Outcome.APPROVED)
    with pytest.raises(Conflict):
        desk.answer(Outcome.DENIED)
