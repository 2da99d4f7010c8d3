"""What only Codex needs of the model: requests to leave the sandbox, web searches, tasks of sub-agents."""

from __future__ import annotations

from typing import Any

import pytest

from tests.support.model.conversation import Json, Tool
from tests.support.model.dialects import Block
from tests.support.model.dialects.responses import Responses
from tests.support.model.script import BadScript, Search, Use, split
from tests.support.model.tools import call

EXEC = Tool("exec_command", {"properties": {"cmd": {}, "sandbox_permissions": {}}})
CODE = Tool("exec", {}, "custom")


def read(*items: Json) -> Any:
    return Responses.read("/v1/responses", {"model": "m", "input": [*items]})


def developer(text: str) -> Json:
    return {"type": "message", "role": "developer", "content": [{"type": "input_text", "text": text}]}


def test_a_command_is_escalated() -> None:
    made = call(Use("escalate", ("ls",)), [EXEC]).input
    assert isinstance(made, dict)
    assert (made["cmd"], made["sandbox_permissions"]) == ("ls", "require_escalated")
    assert "require_escalated" in str(call(Use("escalate", ("ls",)), [CODE]).input)


def test_a_model_that_is_told_not_to_ask_does_not() -> None:
    assert call(Use("escalate", ("ls",)), [EXEC], may_escalate=False).input == {"cmd": "ls"}
    assert read(developer("Approval policy is `granular`")).may_escalate
    assert not read(developer("Approval policy is currently never")).may_escalate


def test_another_agent_has_no_sandbox_to_leave() -> None:
    with pytest.raises(BadScript):
        call(Use("escalate", ("ls",)), [Tool("Bash", {})])


def test_a_search_does_not_end_the_round() -> None:
    (steps,) = split("[[search:platypus]][[say:in rivers]]")
    assert steps[0] == Search("platypus")
    assert len(steps) == 2


def test_a_search_is_an_item_of_its_own() -> None:
    block = Block("search", 0, parts=["platypus"])
    dialect = Responses("m")
    (added,), (done,) = dialect.open(block), dialect.close(block)
    assert isinstance(added.data, dict)
    assert isinstance(done.data, dict)
    assert (added.data["item"]["type"], done.data["item"]["status"]) == ("web_search_call", "completed")
    assert done.data["item"]["action"]["query"] == "platypus"


def test_the_task_of_a_sub_agent_is_its_script() -> None:
    def announced(kind: str) -> Json:
        head = {"type": "input_text", "text": f"Message Type: {kind}\nPayload:\n"}
        task = {"type": "encrypted_content", "encrypted_content": "[[say:x]]"}
        return {"type": "agent_message", "content": [head, task]}

    assert read(announced("NEW_TASK")).script == "[[say:x]]"
    assert read(announced("FINAL_ANSWER")).script == ""
