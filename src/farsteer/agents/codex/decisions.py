"""The decisions that Codex offers for a permission, as options with words."""

from __future__ import annotations

from typing import Any, NamedTuple, cast

from farsteer.core.approvals import Option, OptionKind
from farsteer.core.text import clean_line
from farsteer.core.wire import encode

_NAME_CHARS = 200
_MAX_DECISIONS = 32
_PLAIN = {
    "accept": ("Allow", OptionKind.ALLOW_ONCE),
    "acceptForSession": ("Allow, and the same again in this conversation", OptionKind.ALLOW_ALWAYS),
    "decline": ("Deny", OptionKind.REJECT_ONCE),
    "cancel": ("Deny and stop", OptionKind.REJECT_ONCE),
}


class Decision(NamedTuple):
    option: Option
    result: dict[str, Any]
    """What Codex gets as the result of its request."""


def command_decisions(available: list[Any] | None) -> list[Decision]:
    """Return the decisions for a command, in Codex's order.

    Codex takes `accept`, `decline` and `cancel` for every command, also if it does not list them.
    """
    listed = [*(["accept", "acceptForSession"] if available is None else available[:_MAX_DECISIONS])]
    found: list[Decision] = []
    if "accept" not in listed:
        found.append(_plain("accept"))
    # A denial comes before `cancel`, which also stops the turn: a plain no selects the first of them.
    for entry in [*(one for one in listed if one not in ("decline", "cancel")), "decline", "cancel"]:
        decision = _decision(entry, len(found))
        if decision is not None and decision.option.id not in {one.option.id for one in found}:
            found.append(decision)
    return found


def file_decisions(grant_root: str | None) -> list[Decision]:
    decisions = [_plain(name) for name in _PLAIN]
    if grant_root:
        name = clean_line(f"Allow, and every change below {grant_root} in this conversation", _NAME_CHARS)
        option = Option(id="acceptForSession", name=name, kind=OptionKind.ALLOW_ALWAYS)
        decisions[1] = Decision(option, {"decision": "acceptForSession"})
    return decisions


def permission_decisions(requested: dict[str, Any]) -> list[Decision]:
    """Return the answers to a request for more permissions: grant what was asked for, or nothing."""
    granted = {name: value for name, value in requested.items() if value is not None}
    return [
        Decision(
            Option(id="accept", name="Allow for this turn", kind=OptionKind.ALLOW_ONCE),
            {"permissions": granted, "scope": "turn"},
        ),
        Decision(
            Option(id="acceptForSession", name="Allow in this conversation", kind=OptionKind.ALLOW_ALWAYS),
            {"permissions": granted, "scope": "session"},
        ),
        Decision(
            Option(id="decline", name="Deny", kind=OptionKind.REJECT_ONCE),
            {"permissions": {}, "scope": "turn"},
        ),
    ]


def _plain(name: str) -> Decision:
    words, kind = _PLAIN[name]
    return Decision(Option(id=name, name=words, kind=kind), {"decision": name})


def _decision(entry: Any, index: int) -> Decision | None:
    if isinstance(entry, str):
        if entry in _PLAIN:
            return _plain(entry)
        return _unknown(entry, entry)
    if not isinstance(entry, dict) or len(cast("dict[str, Any]", entry)) != 1:
        return None
    ((name, value),) = cast("dict[str, Any]", entry).items()
    details = cast("dict[str, Any]", value) if isinstance(value, dict) else {}
    result: dict[str, Any] = {"decision": entry}
    if name == "acceptWithExecpolicyAmendment":
        prefix = " ".join(map(str, details.get("execpolicy_amendment") or ()))
        words = f"Allow, and from now on every command that begins with: {prefix}"
        option = Option(id=name, name=clean_line(words, _NAME_CHARS), kind=OptionKind.ALLOW_ALWAYS)
        return Decision(option, result)
    if name == "applyNetworkPolicyAmendment":
        amendment = details.get("network_policy_amendment")
        rule = cast("dict[str, Any]", amendment) if isinstance(amendment, dict) else {}
        allows = rule.get("action") == "allow"
        verb = "Allow" if allows else "Deny"
        words = clean_line(f"{verb} {rule.get('host')} from now on", _NAME_CHARS)
        kind = OptionKind.ALLOW_ALWAYS if allows else OptionKind.REJECT_ALWAYS
        return Decision(Option(id=f"{name}:{index}", name=words, kind=kind), result)
    return _unknown(f"{name}:{index}", entry)


def _unknown(option_id: str, entry: Any) -> Decision:
    """Offer a decision that we do not know as it is. It counts as lasting, so that a plain yes never selects it."""
    words = clean_line(entry if isinstance(entry, str) else encode(entry).decode(), _NAME_CHARS)
    return Decision(Option(id=option_id, name=words, kind=OptionKind.ALLOW_ALWAYS), {"decision": entry})
