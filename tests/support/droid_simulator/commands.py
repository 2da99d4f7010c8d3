"""What can be said to the simulator, one command per line; anything else gets an answer."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

from farsteer.core.ids import new_id
from farsteer.faces.droid.notes import McpAuthRequired, Text, ToolUse
from tests.support.droid_simulator import snapshots, store
from tests.support.droid_simulator.turn import Over, Turn, risk

Perform = Callable[[Turn, str], Awaitable[None]]
COMMANDS: dict[str, tuple[str, Perform]] = {}
_REFUSED = "Error: Plan not approved - remaining in Spec Mode. Provide feedback to refine the spec."
_LEVELS = {
    "proceed_auto_run_low": "low",
    "proceed_auto_run_medium": "medium",
    "proceed_auto_run_high": "high",
}
_FIVE = [
    {"label": "Proceed with implementation", "value": "proceed_once"},
    {"label": "Proceed, and allow file edits and read-only commands (Low)", "value": "proceed_auto_run_low"},
    {"label": "Proceed, and allow reversible commands (Medium)", "value": "proceed_auto_run_medium"},
    {"label": "Proceed, and allow all commands (High)", "value": "proceed_auto_run_high"},
]
_NEW_SESSION = [
    {"label": "Proceed in a new session", "value": "proceed_new_session"},
    *(
        {"label": f"… ({level})", "value": f"proceed_new_session_{level}"}
        for level in ("low", "medium", "high")
    ),
]
_NO = {"label": "No, keep iterating on spec", "value": "cancel"}


def command(name: str, about: str) -> Callable[[Perform], Perform]:
    def keep(perform: Perform) -> Perform:
        COMMANDS[name] = about, perform
        return perform

    return keep


async def perform(turn: Turn) -> None:
    lines = [line.strip() for line in turn.text.splitlines() if line.strip()]
    found = [_find(line) for line in lines]
    if not lines or found[0] is None:
        turn.final = True
        await turn.say(f"You said “{turn.text}”.", last=True)
        return
    script = [one for one in found if one is not None]
    for number, (name, argument) in enumerate(script, 1):
        turn.final = number == len(script)
        await COMMANDS[name][1](turn, argument)


def _find(line: str) -> tuple[str, str] | None:
    names = [name for name in COMMANDS if line == name or line.startswith(f"{name} ")]
    name = max(names, key=len, default=None)
    return None if name is None else (name, line[len(name) :].strip())


@command("say", "says the text")
async def _say(turn: Turn, argument: str) -> None:
    await turn.say(argument or "…", last=True)


@command("think", "thinks the text and then answers")
async def _think(turn: Turn, argument: str) -> None:
    await turn.say("I have thought about it.", thought=argument or "hm", last=True)


@command("work", "says a word every 50 ms, for a minute")
async def _work(turn: Turn, argument: str) -> None:
    await turn.say(" ".join(f"word{number}" for number in range(1200)), pace=0.05, last=True)


@command("recall", "says what the person has said so far")
async def _recall(turn: Turn, argument: str) -> None:
    said = [
        block.text
        for message in turn.voice.here.messages[:-1]
        if message.role == "user" and message.visibility is None
        for block in message.content
        if isinstance(block, Text)
    ]
    await turn.say("\n".join(said) or "nothing", last=True)


@command("transcript", "says all that was said before, by both sides")
async def _transcript(turn: Turn, argument: str) -> None:
    said = [
        block.text
        for message in turn.voice.here.messages[:-1]
        if message.visibility is None
        for block in message.content
        if isinstance(block, Text)
    ]
    await turn.say("\n".join(said) or "nothing", last=True)


@command("run", "runs a shell command")
async def _run(turn: Turn, argument: str) -> None:
    level = risk(argument)
    given = {
        "command": argument, "timeout": 60, "summary": argument[:40], "riskLevel": level,
        "riskLevelReason": f"It looks {level}",
    }  # fmt: skip
    await turn.use("Execute", given, turn.shell)
    await turn.say("Done.", last=True)


@command("write", "writes a file: its name and its text")
async def _write(turn: Turn, argument: str) -> None:
    name, _, text = argument.partition(" ")
    path = os.path.join(turn.voice.here.directory, name)

    async def act(use: ToolUse) -> tuple[str, bool]:
        snapshots.note(turn.voice.here.id, turn.id, path)
        await asyncio.to_thread(Path(path).write_text, text)
        return "File created successfully", False

    await turn.use("Create", {"file_path": path, "content": text}, act)
    await turn.say("Done.", last=True)


@command("ask", "asks which color, and after “multi” which features too")
async def _ask(turn: Turn, argument: str) -> None:
    questions: list[dict[str, Any]] = [
        {"index": 1, "topic": "Color", "question": "Which color do you want?", "options": ["Red", "Blue"]}
    ]
    if argument == "multi":
        questions.append(
            {"index": 2, "topic": "Features", "question": "Which features?", "options": ["Auth", "Login"],
             "multiSelect": True}
        )  # fmt: skip
    chosen = await turn.question(*questions)
    await turn.say(f"You chose {chosen or 'nothing'}.", last=True)


@command("plan", "proposes a plan; the names of several are separated by |")
async def _plan(turn: Turn, argument: str) -> None:
    voice = turn.voice
    names = [name.strip() for name in argument.split("|")] if argument else []
    given: dict[str, Any] = {"plan": "# Plan\n\n1. Create a file", "title": "My Spec"}
    details = {"type": "exit_spec_mode", **given}
    if names:
        given["optionNames"] = names
        if voice.profile.names_plans:
            details["optionNames"] = names
    use = turn.new_use("ExitSpecMode", given)
    await turn.announce(use)
    options = [*_FIVE, *(_NEW_SESSION if voice.profile.hands_over else []), _NO]
    word, selected = await turn.permit(use, "exit_spec_mode", details, options)
    if word == "cancel":
        await turn.conclude(use, _REFUSED, failed=True)
        raise Over
    settings = voice.here.settings
    settings.spec, settings.level = False, _LEVELS.get(word, "off")
    store.save(voice.here)
    await voice.settings()
    edited = selected is not None and selected.edited_spec_content is not None
    message = "The plan has been saved and edited." if edited else "Spec mode exited."
    if word.startswith("proceed_new_session"):
        await _hand_over(turn, use, word.removeprefix("proceed_new_session").lstrip("_"))
        return
    text = f'{{"approved":true,"message":"{message}","isEdited":{str(edited).lower()}}}'
    await turn.conclude(use, text, failed=False)
    await turn.say("Implemented.", last=True)


async def _hand_over(turn: Turn, use: ToolUse, level: str) -> None:
    """The plan is carried out in another session, and the process stays there."""
    voice, old = turn.voice, turn.voice.here
    await turn.conclude(use, '{"approved":true,"handoff":{"isNewSession":true}}', failed=False)
    settings = store.Settings(model=old.settings.model, level=level or "off")
    new = voice.session = store.Stored(new_id(), old.directory, settings, [])
    store.begin(new)
    before = settings.used
    await voice.settings()
    turn_id = await voice.heard("Implement the following plan: …", turn.request)
    await voice.called()
    await turn.say("Implemented elsewhere.")
    await voice.completed("completed", turn_id, before)
    await voice.state("idle")
    voice.session = old
    turn.reason = "spec_handoff"
    await turn.end_now("spec_handoff")
    voice.session = new


@command("mcp auth", "tells that a server wants to know who one is")
async def _mcp_auth(turn: Turn, argument: str) -> None:
    note = McpAuthRequired(
        server_name="linear", auth_url="https://mcp.example.com/authorize", message="Authentication required for linear"
    )  # fmt: skip
    await turn.voice.note(note)
    await turn.say("Please sign in.", last=True)
