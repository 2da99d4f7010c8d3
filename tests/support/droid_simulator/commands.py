"""The commands that the simulator follows, one per line of the user's text. Any other text gets an answer."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

from farsteer.core.droid import (
    CANCEL,
    EXIT_SPEC_MODE,
    PLAN_OPTION_MODES,
    PROCEED_NEW_SESSION,
    SPEC_HANDOFF,
    ToolName,
    WorkingState,
    autonomy_level,
)
from farsteer.core.ids import new_id
from farsteer.faces.droid.protocol import McpAuthRequired, Message, TextContent, ToolUse
from tests.support.droid_simulator import store
from tests.support.droid_simulator.turn import Turn, TurnOver, risk_level

Perform = Callable[[Turn, str], Awaitable[None]]
COMMANDS: dict[str, tuple[str, Perform]] = {}
_PLAN_DENIED = "Error: Plan not approved - remaining in Spec Mode. Provide feedback to refine the spec."
_PLAN_OPTIONS = [
    {"label": "Proceed with implementation", "value": "proceed_once"},
    {"label": "Proceed, and allow file edits and read-only commands (Low)", "value": "proceed_auto_run_low"},
    {"label": "Proceed, and allow reversible commands (Medium)", "value": "proceed_auto_run_medium"},
    {"label": "Proceed, and allow all commands (High)", "value": "proceed_auto_run_high"},
]
_NEW_SESSION_OPTIONS = [
    {"label": "Proceed in a new session", "value": PROCEED_NEW_SESSION},
    *(
        {"label": f"… ({level})", "value": f"{PROCEED_NEW_SESSION}_{level}"}
        for level in ("low", "medium", "high")
    ),
]
_DENY_OPTION = {"label": "No, keep iterating on spec", "value": CANCEL}


def command(name: str, about: str) -> Callable[[Perform], Perform]:
    def register(perform: Perform) -> Perform:
        COMMANDS[name] = about, perform
        return perform

    return register


async def perform(turn: Turn) -> None:
    lines = [line.strip() for line in turn.text.splitlines() if line.strip()]
    found = [_find(line) for line in lines]
    if not lines or found[0] is None:
        turn.is_last_command = True
        await turn.say(f"You said “{turn.text}”.", last=True)
        return
    script = [one for one in found if one is not None]
    for number, (name, argument) in enumerate(script, 1):
        turn.is_last_command = number == len(script)
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


@command("recall", "repeats the user's messages so far")
async def _recall(turn: Turn, argument: str) -> None:
    messages = [message for message in turn.output.current.messages[:-1] if message.role == "user"]
    await turn.say("\n".join(_texts(messages)) or "nothing", last=True)


@command("transcript", "repeats all messages so far")
async def _transcript(turn: Turn, argument: str) -> None:
    await turn.say("\n".join(_texts(turn.output.current.messages[:-1])) or "nothing", last=True)


def _texts(messages: list[Message]) -> list[str]:
    return [
        block.text
        for message in messages
        if message.visibility is None
        for block in message.content
        if isinstance(block, TextContent)
    ]


@command("run", "runs a shell command")
async def _run(turn: Turn, argument: str) -> None:
    level = risk_level(argument)
    given = {
        "command": argument, "timeout": 60, "summary": argument[:40], "riskLevel": level,
        "riskLevelReason": f"It looks {level}",
    }  # fmt: skip
    await turn.run_tool(ToolName.EXECUTE, given, turn.run_shell)
    await turn.say("Done.", last=True)


@command("batch", "runs shell commands, separated by “|”, and asks for all of them at once")
async def _batch(turn: Turn, argument: str) -> None:
    uses = [
        turn.new_tool_use(
            ToolName.EXECUTE, {"command": part.strip(), "timeout": 60, "riskLevel": risk_level(part)}
        )
        for part in argument.split("|")
    ]
    for use in uses:
        await turn.announce_tool(use)
    await turn.request_permission(uses[0], more=uses[1:])
    for use in uses:
        text, failed = await turn.run_shell(use)
        await turn.finish_tool(use, text, failed=failed)
    await turn.say("Done.", last=True)


@command("write", "writes a file: its name and its text")
async def _write(turn: Turn, argument: str) -> None:
    name, _, text = argument.partition(" ")
    path = os.path.join(turn.output.current.directory, name)

    async def write_file(use: ToolUse) -> tuple[str, bool]:
        store.copy_file(turn.output.current.id, turn.id, path)
        await asyncio.to_thread(Path(path).write_text, text)
        return "File created successfully", False

    await turn.run_tool(ToolName.CREATE, {"file_path": path, "content": text}, write_file)
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
    answer = await turn.ask_user(*questions)
    await turn.say(f"You chose {answer or 'nothing'}.", last=True)


@command("plan", "proposes a plan; the names of several are separated by |")
async def _plan(turn: Turn, argument: str) -> None:
    output = turn.output
    names = [name.strip() for name in argument.split("|")] if argument else []
    given: dict[str, Any] = {"plan": "# Plan\n\n1. Create a file", "title": "My Spec"}
    details = {"type": EXIT_SPEC_MODE, **given}
    if names:
        given["optionNames"] = names
        if output.profile.names_plans_in_details:
            details["optionNames"] = names
    use = turn.new_tool_use(ToolName.EXIT_SPEC_MODE, given)
    await turn.announce_tool(use)
    new_session = _NEW_SESSION_OPTIONS if output.profile.hands_off_plans else []
    options = [*_PLAN_OPTIONS, *new_session, _DENY_OPTION]
    selected, answer = await turn.request_permission(use, EXIT_SPEC_MODE, details, options)
    if selected == CANCEL:
        await turn.finish_tool(use, _PLAN_DENIED, failed=True)
        raise TurnOver
    settings = output.current.settings
    mode = PLAN_OPTION_MODES.get(selected)
    settings.spec, settings.level = False, "off" if mode is None else autonomy_level(mode)
    store.save(output.current)
    await output.notify_settings()
    edited = answer is not None and answer.edited_spec_content is not None
    message = "The plan has been saved and edited." if edited else "Spec mode exited."
    if selected.startswith(PROCEED_NEW_SESSION):
        await _hand_off(turn, use, selected.removeprefix(PROCEED_NEW_SESSION).lstrip("_"))
        return
    text = f'{{"approved":true,"message":"{message}","isEdited":{str(edited).lower()}}}'
    await turn.finish_tool(use, text, failed=False)
    await turn.say("Implemented.", last=True)


async def _hand_off(turn: Turn, use: ToolUse, level: str) -> None:
    """Carry the plan out in another session, in which the process then stays."""
    output, old = turn.output, turn.output.current
    await turn.finish_tool(use, '{"approved":true,"handoff":{"isNewSession":true}}', failed=False)
    settings = store.Settings(model=old.settings.model, level=level or "off")
    new = output.session = store.Stored(new_id(), old.directory, settings, [])
    store.create(new)
    used_before = settings.used
    await output.notify_settings()
    turn_id = await output.user_message("Implement the following plan: …", turn.request_id)
    await output.count_model_call()
    await turn.say("Implemented elsewhere.")
    await output.turn_completed("completed", turn_id, used_before)
    await output.change_state(WorkingState.IDLE)
    output.session = old
    turn.reason = SPEC_HANDOFF
    await turn.end_now(SPEC_HANDOFF)
    output.session = new


@command("mcp auth", "reports that an MCP server needs authentication")
async def _mcp_auth(turn: Turn, argument: str) -> None:
    required = McpAuthRequired(
        server_name="linear", auth_url="https://mcp.example.com/authorize", message="Authentication required for linear"
    )  # fmt: skip
    await turn.output.notify(required)
    await turn.say("Please sign in.", last=True)
