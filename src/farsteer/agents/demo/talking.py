"""What it says: answers, thoughts, its memory, itself."""

from __future__ import annotations

import json
import re
from typing import Any

from farsteer.agents.demo.commands import COMMANDS, Misuse, number, talking
from farsteer.agents.demo.turn import Turn

_PACE = 0.003
"""Seconds between the words of a friendly answer: enough to see it stream."""
_RECALL = re.compile(
    r"what (?:(?P<what>[\w -]+) )?(?:did i (?:say|tell|mention|give)|have i (?:said|told|mentioned|given))\b",
    re.IGNORECASE,
)
_REPLY = re.compile(r"\b(?:just|only) (?:reply|say|answer) (?P<text>[^.!\n]+)[.!]?\s*$", re.IGNORECASE)


def answer(turn: Turn, text: str) -> None:
    """Anything that is no command."""
    said = text.strip()
    if asked := _RECALL.match(said):
        recall(turn, asked["what"])
        return
    if wish := _REPLY.search(said):
        turn.say(wish["text"])
        return
    quoted = said if len(said) <= 200 else said[:199] + "…"
    turn.say(
        f"You said “{quoted}”. I am the demo agent: no model, no network, always the same answers. "
        "Try `run ls`, `write notes.txt hello`, `ask`, `plan`, `think`, `todo`, `slow 50` or `history`; "
        "`help` lists everything.",
        pace=_PACE,
    )


def recall(turn: Turn, what: str | None = None) -> None:
    """What the person said, or the thing of that name that they told."""
    earlier = [record["text"] for record in _earlier(turn, "user")]
    if what is not None:
        told = re.compile(rf"\b{re.escape(what)} (?:is|was|are) (?P<it>\S+?)[.,;!?]?(?:\s|$)", re.IGNORECASE)
        found = [match["it"] for text in earlier if (match := told.search(text))]
        turn.say(found[-1] if found else f"You have told me no {what}.")
    elif earlier:
        said = "; ".join(f"“{text}”" for text in earlier[-5:])
        turn.say(f"You said {said}.")
    else:
        turn.say("You have said nothing before this.")


def acknowledge(turn: Turn, attachments: list[dict[str, Any]]) -> None:
    """Say what came with the message, so that one sees it arrived whole."""
    import base64
    import hashlib

    for attachment in attachments:
        data = base64.b64decode(attachment.get("data") or "")
        digest = hashlib.sha256(data).hexdigest()[:12]
        turn.say(
            f"I got {attachment['name']} ({attachment['mimeType']}, {len(data)} bytes, sha256 {digest})."
        )


def _earlier(turn: Turn, role: str) -> list[dict[str, Any]]:
    """Without the message that is being answered."""
    return [record for record in turn.session.history.messages[:-1] if record["role"] == role]


@talking("help", "says all of this")
def _help(turn: Turn, argument: str) -> None:
    turn.say(COMMANDS.help())


@talking("say <text>", "says exactly that, as fast as it can")
def _say(turn: Turn, argument: str) -> None:
    turn.say(argument or "…")


@talking("slow [words]", "says that many words (20), one every 50 ms")
def _slow(turn: Turn, argument: str) -> None:
    count = int(number(argument, 20, 1, 10_000))
    turn.say(" ".join(f"word{n}" for n in range(1, count + 1)), pace=0.05)


@talking("think [text]", "thinks aloud before it answers")
def _think(turn: Turn, argument: str) -> None:
    thought = argument or "What would a careful agent do here? First look, then ask, then act."
    turn.think(thought, pace=_PACE)
    turn.say("I have thought about it.")


@talking("history", "says what it remembers of the conversation, also after a restart")
def _history(turn: Turn, argument: str) -> None:
    records = turn.session.history.messages[:-1]
    lines = [f"{number}. {record['role']}: {record['text']}" for number, record in enumerate(records, 1)]
    turn.say("\n".join(lines) or "Nothing yet.")


@talking("model", "says its model, reasoning effort and permission mode")
def _model(turn: Turn, argument: str) -> None:
    session = turn.session
    turn.say(f"model {session.model}, effort {session.effort}, permission mode {session.mode.value}")


@talking("usage", "says how full its context is; every turn ends with a usage report")
def _usage(turn: Turn, argument: str) -> None:
    turn.say(f"My context holds {turn.session.tokens()} tokens.")


@talking("servers", "names the servers of tools and the further directories it was given; it uses neither")
def _servers(turn: Turn, argument: str) -> None:
    import hashlib

    lines: list[str] = []
    for server in turn.session.servers:
        secret = json.dumps([server.get("args"), server.get("env"), server.get("headers")])
        digest = hashlib.sha256(secret.encode()).hexdigest()[:12]
        where = server.get("command") or server.get("url")
        lines.append(f"{server['name']}: {server.get('type', 'stdio')} {where}, the rest is {digest}")
    lines += [f"directory {path}" for path in turn.session.directories]
    turn.say("\n".join(lines) or "I was given none.")


@talking("title <text>", "gives the session a title")
def _title(turn: Turn, argument: str) -> None:
    if not argument:
        raise Misuse("`title` needs a text")
    turn.session.out.send("title", title=argument[:200])
    turn.say(f"This session is now called “{argument[:200]}”.")
