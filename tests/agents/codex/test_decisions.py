"""Codex's decisions as options: each is offered, and each leads back to what Codex takes."""

from __future__ import annotations

from farsteer.agents.codex.decisions import (
    Decision,
    command_decisions,
    file_decisions,
    permission_decisions,
)
from farsteer.core.approvals import OptionKind

AMENDMENT = {"acceptWithExecpolicyAmendment": {"execpolicy_amendment": ["git", "pull"]}}


def kinds(decisions: list[Decision]) -> dict[str, OptionKind]:
    return {one.option.id: one.option.kind for one in decisions}


def test_a_command_has_the_listed_decisions_and_both_denials() -> None:
    decisions = command_decisions(["accept", AMENDMENT, "cancel"])
    assert kinds(decisions) == {
        "accept": OptionKind.ALLOW_ONCE,
        "acceptWithExecpolicyAmendment": OptionKind.ALLOW_ALWAYS,
        "decline": OptionKind.REJECT_ONCE,
        "cancel": OptionKind.REJECT_ONCE,
    }
    assert [one.result for one in decisions] == [
        {"decision": "accept"},
        {"decision": AMENDMENT},
        {"decision": "decline"},
        {"decision": "cancel"},
    ]
    assert "git pull" in decisions[1].option.name


def test_a_denial_that_goes_on_comes_before_the_one_that_stops() -> None:
    ids = [one.option.id for one in command_decisions(["cancel", "decline", "accept"])]
    assert ids.index("decline") < ids.index("cancel")


def test_a_command_without_a_list_may_be_allowed_for_the_session() -> None:
    assert [*kinds(command_decisions(None))] == ["accept", "acceptForSession", "decline", "cancel"]


def test_an_empty_list_still_allows_once() -> None:
    assert [*kinds(command_decisions([]))] == ["accept", "decline", "cancel"]


def test_amendments_of_the_network_policy_allow_or_deny_a_host() -> None:
    def amend(action: str) -> dict[str, object]:
        return {
            "applyNetworkPolicyAmendment": {
                "network_policy_amendment": {"host": "example.com", "action": action}
            }
        }

    decisions = command_decisions(["accept", amend("allow"), amend("deny")])
    allowed, denied = decisions[1:3]
    assert (allowed.option.kind, denied.option.kind) == (OptionKind.ALLOW_ALWAYS, OptionKind.REJECT_ALWAYS)
    assert allowed.option.id != denied.option.id
    assert "example.com" in allowed.option.name
    assert denied.result == {"decision": amend("deny")}


def test_an_unknown_decision_is_offered_and_never_chosen_by_a_plain_yes() -> None:
    decisions = command_decisions(["accept", "acceptOnTuesdays", {"acceptIf": {"moon": "full"}}])
    unknown = decisions[1:3]
    assert [one.option.kind for one in unknown] == [OptionKind.ALLOW_ALWAYS] * 2
    assert unknown[0].result == {"decision": "acceptOnTuesdays"}
    assert unknown[1].result == {"decision": {"acceptIf": {"moon": "full"}}}


def test_what_is_no_decision_is_left_out_and_their_number_is_bounded() -> None:
    assert [*kinds(command_decisions([None, 5, {}, {"a": 1, "b": 2}]))] == ["accept", "decline", "cancel"]
    assert len(command_decisions([f"x{number}" for number in range(1000)])) < 50


def test_the_same_decision_is_offered_once() -> None:
    assert [*kinds(command_decisions(["accept", "accept", AMENDMENT, AMENDMENT]))] == [
        "accept",
        "acceptWithExecpolicyAmendment",
        "decline",
        "cancel",
    ]


def test_names_are_one_safe_line() -> None:
    amendment = {"acceptWithExecpolicyAmendment": {"execpolicy_amendment": ["a\nb\x1b[31m", "x" * 900]}}
    name = command_decisions([amendment])[1].option.name
    assert name.isprintable()
    assert len(name) <= 200


def test_a_file_change_has_four_decisions() -> None:
    assert [*kinds(file_decisions(None))] == ["accept", "acceptForSession", "decline", "cancel"]


def test_the_root_that_a_file_change_asks_for_is_named() -> None:
    assert "/srv/data" in file_decisions("/srv/data")[1].option.name


def test_permissions_are_granted_as_asked_or_not_at_all() -> None:
    once, lasting, denied = permission_decisions({"network": {"enabled": True}, "fileSystem": None})
    assert once.result == {"permissions": {"network": {"enabled": True}}, "scope": "turn"}
    assert lasting.result == {"permissions": {"network": {"enabled": True}}, "scope": "session"}
    assert denied.result == {"permissions": {}, "scope": "turn"}
