"""What the simulator does in a turn, by the first words of the user's text."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Awaitable, Callable
from typing import Any

from farsteer.core.ids import new_id
from tests.support.claude_simulator.turn import Json, Turn

Command = Callable[[Turn, str], Awaitable[None]]
COMMANDS: dict[str, tuple[str, Command]] = {}
_STUBBORN_SECONDS = 60


def command(name: str, about: str) -> Callable[[Command], Command]:
    def register(function: Command) -> Command:
        COMMANDS[name] = (about, function)
        return function

    return register


async def perform(turn: Turn, text: str) -> None:
    """Do what the longest matching command says; repeat any other text."""
    for name in sorted(COMMANDS, key=len, reverse=True):
        if text == name or text.startswith(f"{name} "):
            await COMMANDS[name][1](turn, text.removeprefix(name).strip())
            return
    await turn.say(f"echo: {text}")


@command("think", "thinks and answers")
async def _think(turn: Turn, argument: str) -> None:
    await turn.think(argument or "hm")
    await turn.say("I see.")


@command("work", "says a word every 50 ms, for a minute")
async def _work(turn: Turn, argument: str) -> None:
    await turn.say(" ".join(f"word{number}" for number in range(1200)), pace=0.05)


@command("recall", "repeats the user's messages so far")
async def _recall(turn: Turn, argument: str) -> None:
    await turn.say("\n".join(_texts(turn, "user")) or "nothing")


@command("transcript", "repeats all messages so far")
async def _transcript(turn: Turn, argument: str) -> None:
    await turn.say("\n".join(_texts(turn, "user", "assistant")) or "nothing")


def _texts(turn: Turn, *kinds: str) -> list[str]:
    """Return the texts of the conversation before this message."""
    found: list[str] = []
    for record in turn.conversation.records[:-1]:
        content = record["message"]["content"]
        blocks: list[Json] = [{"text": content}] if isinstance(content, str) else content
        if record["type"] in kinds:
            found += [block["text"] for block in blocks if "text" in block]
    return found


@command("settings", "says its mode, model and effort")
async def _settings(turn: Turn, argument: str) -> None:
    await turn.say(" ".join(str(turn.session[name]) for name in ("mode", "model", "effort")))


@command("run", "runs a shell command")
async def _run(turn: Turn, argument: str) -> None:
    await turn.run_command(argument)
    await turn.say("Done.")


@command("write", "writes a file: its name and its text")
async def _write(turn: Turn, argument: str) -> None:
    name, _, text = argument.partition(" ")
    await turn.write_file(name, text)
    await turn.say("Done.")


@command("write two", "writes two files at once, with sub-agents")
async def _write_two(turn: Turn, argument: str) -> None:
    def writer(name: str) -> Callable[[Turn], Awaitable[None]]:
        return lambda nested: nested.write_file(name, "text")

    await turn.run_sub_agents(*map(writer, argument.split()))
    await turn.say("Done.")


@command("ask", "asks which color")
async def _ask(turn: Turn, argument: str) -> None:
    options = [{"label": "Red", "description": "warm"}, {"label": "Blue", "description": "cold"}]
    question = {"question": "Which color?", "header": "Color", "options": options, "multiSelect": False}

    async def run(given: Json) -> tuple[str, Any]:
        return f"The user has answered: {given['answers']}", {"answers": given["answers"]}

    await turn.use_tool("AskUserQuestion", {"questions": [question]}, run)
    await turn.say("Thank you.")


@command("plan", "presents a plan")
async def _plan(turn: Turn, argument: str) -> None:
    async def run(given: Json) -> tuple[str, Any]:
        return "User has approved your plan.", {"plan": given["plan"]}

    await turn.use_tool("ExitPlanMode", {"plan": argument or "# The plan"}, run)
    await turn.say("Done.")


@command("loosen", "accepts edits from now on, without having been asked to")
async def _loosen(turn: Turn, argument: str) -> None:
    await turn.set_mode("acceptEdits")
    await turn.say("I do as I like.")


@command("sub-agent", "starts a sub-agent, which thinks and answers")
async def _sub_agent(turn: Turn, argument: str) -> None:
    async def look(nested: Turn) -> None:
        await nested.think("the sub-agent thinks")
        await nested.say("The sub-agent answers.")

    await turn.run_sub_agents(look)
    await turn.say("The agent answers.")


@command("fail", "fails with this status, after a retry in the middle of a message")
async def _fail(turn: Turn, argument: str) -> None:
    message_id = await turn.begin_message({"type": "text", "text": ""})
    await turn.stream_part(message_id, {"type": "text_delta", "text": "broken "})
    await turn.write(
        {"type": "system", "subtype": "api_retry", "attempt": 1, "max_retries": 1, "retry_delay_ms": 500,
         "error_status": int(argument), "error": "server_error"}
    )  # fmt: skip
    text = f"API Error: {argument} the model failed"
    await turn.end("success", is_error=True, result=text, api_error_status=int(argument))


# -- faults


@command("crash", "dies at once")
async def _crash(turn: Turn, argument: str) -> None:
    await asyncio.sleep(0.05)
    os.kill(os.getpid(), signal.SIGKILL)


@command("crash mid", "dies in the middle of a message")
async def _crash_mid(turn: Turn, argument: str) -> None:
    message_id = await turn.begin_message({"type": "text", "text": ""})
    await turn.stream_part(message_id, {"type": "text_delta", "text": "This message will never be "})
    await _crash(turn, argument)


@command("stubborn", "ignores interrupts, the end of its input and SIGTERM for a minute")
async def _stubborn(turn: Turn, argument: str) -> None:
    turn.ignores_interrupts = True
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, lambda: None)
    signal.alarm(_STUBBORN_SECONDS)
    message_id = await turn.begin_message({"type": "text", "text": ""})
    await turn.stream_part(message_id, {"type": "text_delta", "text": "Only SIGKILL ends me."})
    await asyncio.sleep(_STUBBORN_SECONDS)


@command("end early", "reports the end of the turn and then says more")
async def _end_early(turn: Turn, argument: str) -> None:
    await turn.say("This belongs to the turn.")
    await turn.end()
    await turn.say("This comes after its end.")


@command("repeat", "says everything more than once")
async def _repeat(turn: Turn, argument: str) -> None:
    block = {"type": "text", "text": "Said once."}
    line = {
        "type": "assistant", "message": {"id": f"msg_{new_id()}", "model": "sim-1", "content": [block]},
        "parent_tool_use_id": None, "uuid": new_id(),
    }  # fmt: skip
    for _ in range(3):
        await turn.write(line)
    turn.is_over = True
    for _ in range(2):
        await turn.result()


@command("unknown", "sends lines, reports, blocks and requests of unknown kinds")
async def _unknown(turn: Turn, argument: str) -> None:
    await turn.write({"type": "new_thing", "thing": {"a": 1}})
    await turn.write({"type": "system", "subtype": "new_report", "thing": [1]})
    await turn.write({"type": "stream_event", "event": {"type": "new_event"}, "parent_tool_use_id": None})
    await turn.assistant(f"msg_{new_id()}", {"type": "new_block", "thing": 1})
    answer = await turn.ask({"subtype": "new_request"})
    await turn.say("refused" if "error" in answer else "allowed")


@command("garbage", "writes lines that are not part of its protocol")
async def _garbage(turn: Turn, argument: str) -> None:
    for line in (
        b"thread 'main' panicked\n", b"{\n", b"[]\n", b"null\n", b"\xff\xfe\n", b'{"type": 5}\n', b'{"id": 99}\n',
        b'{"type": "assistant"}\n', b'{"type": "result", "is_error": "maybe"}\n', b'{"type": "control_request"}\n',
        b'{"type": "control_response", "response": {"request_id": "nobody", "subtype": "success"}}\n',
        b'{"type": "control_cancel_request", "request_id": "nobody"}\n', b'{"a": ' * 2000 + b"\n",
    ):  # fmt: skip
        await turn.write_raw(line)
    await turn.say("Sorry.")
