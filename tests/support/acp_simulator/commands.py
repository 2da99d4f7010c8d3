"""What the simulator does in a turn, by the first words of the user's text."""

from __future__ import annotations

import asyncio
import json
import os
import signal
from collections.abc import Awaitable, Callable
from pathlib import Path

from farsteer.core.ids import new_id
from tests.support.acp_simulator.turn import Turn, TurnOver

Command = Callable[[Turn, str], Awaitable[None]]
COMMANDS: dict[str, tuple[str, Command]] = {}
_STUBBORN_SECONDS = 60


def command(name: str, about: str) -> Callable[[Command], Command]:
    def register(function: Command) -> Command:
        COMMANDS[name] = (about, function)
        return function

    return register


async def perform(turn: Turn, text: str, settings: dict[str, str]) -> None:
    """Do what the longest matching command says; repeat any other text."""
    if text == "settings":
        await turn.say(" ".join(settings.values()))
        return
    for name in sorted(COMMANDS, key=len, reverse=True):
        if text == name or text.startswith(f"{name} "):
            await COMMANDS[name][1](turn, text.removeprefix(name).strip())
            return
    await turn.say(f"echo: {text}")


@command("think", "thinks and answers")
async def _think(turn: Turn, argument: str) -> None:
    await turn.think(argument or "hm")
    await turn.say("I see.")
    await turn.update("usage_update", used=110, size=1000, cost={"amount": 0.5, "currency": "USD"})
    turn.usage = {"totalTokens": 110, "inputTokens": 100, "outputTokens": 10, "cachedReadTokens": 40}


@command("work", "says a word every 50 ms, for a minute")
async def _work(turn: Turn, argument: str) -> None:
    await turn.say(" ".join(f"word{number}" for number in range(1200)), pace=0.05)


@command("recall", "repeats the user's messages so far")
async def _recall(turn: Turn, argument: str) -> None:
    await turn.say("\n".join(one.text for one in turn.session.turns) or "nothing")


@command("transcript", "repeats all messages so far")
async def _transcript(turn: Turn, argument: str) -> None:
    said = [
        text for one in turn.session.turns for text in (one.text, *(update["text"] for update in one.updates))
    ]
    await turn.say("\n".join(said) or "nothing")


@command("run", "runs a shell command")
async def _run(turn: Turn, argument: str) -> None:
    await turn.run_command(argument)
    await turn.say("Done.")


@command("read", "reads a file without asking, and shows it")
async def _read(turn: Turn, argument: str) -> None:
    call = f"call_{new_id()}"
    text = await asyncio.to_thread(Path(argument).read_text)
    content = [{"type": "content", "content": {"type": "text", "text": text}}]
    await turn.update(
        "tool_call", toolCallId=call, title="Read", kind="read", status="completed", content=content
    )


@command("write", "writes a file: its name and its text")
async def _write(turn: Turn, argument: str) -> None:
    name, _, text = argument.partition(" ")
    await turn.change_file(name, text)
    await turn.say("Done.")


@command("write two", "writes two files at once")
async def _write_two(turn: Turn, argument: str) -> None:
    await asyncio.gather(*(turn.change_file(name, "text") for name in argument.split()))
    await turn.say("Done.")


@command("ask", "asks which color and size")
async def _ask(turn: Turn, argument: str) -> None:
    schema = {
        "type": "object",
        "properties": {
            "color": {"type": "string", "title": "Which color?", "oneOf": [
                {"const": "r", "title": "Red"}, {"const": "b", "title": "Blue"},
            ]},
            "size": {"type": "integer", "title": "Which size?"},
        },
    }  # fmt: skip
    answer = await turn.request("elicitation/create", mode="form", message="Choose.", requestedSchema=schema)
    await turn.say(f"You chose {answer.get('result')}.")


@command("plan", "proposes a plan")
async def _plan(turn: Turn, argument: str) -> None:
    content = [{"type": "content", "content": {"type": "text", "text": "1. Read\n2. Write"}}]
    call = {"toolCallId": new_id(), "title": "Ready to code?", "kind": "switch_mode", "content": content}
    options = [
        {"optionId": "yolo", "name": "Yes, and never ask", "kind": "allow_always"},
        {"optionId": "ask", "name": "Yes", "kind": "allow_once"},
        {"optionId": "no", "name": "No", "kind": "reject_once"},
    ]
    chosen = await turn.ask(call, options)
    if chosen in ("yolo", "ask"):
        await turn.set_mode(chosen)
    await turn.say(f"You chose {chosen}.")


@command("loosen", "changes to the mode yolo by itself")
async def _loosen(turn: Turn, argument: str) -> None:
    await turn.set_mode("yolo")
    await turn.say("Now I may do anything.")


# -- faults


@command("stop", "ends the turn with this stop reason")
async def _stop(turn: Turn, argument: str) -> None:
    raise TurnOver(argument)


@command("fail", "answers the prompt with this error code")
async def _fail(turn: Turn, argument: str) -> None:
    from tests.support.acp_simulator.simulator import RequestFailed

    raise RequestFailed(int(argument), "Internal error", {"details": "the model failed"})


@command("nothing", "ends the turn without a word")
async def _nothing(turn: Turn, argument: str) -> None:
    return


@command("crash", "dies at once")
async def _crash(turn: Turn, argument: str) -> None:
    await asyncio.sleep(0.05)
    os.kill(os.getpid(), signal.SIGKILL)


@command("crash mid", "dies in the middle of a message")
async def _crash_mid(turn: Turn, argument: str) -> None:
    await turn.say("This message will never be ")
    await _crash(turn, argument)


@command("stubborn", "ignores interrupts, the end of its input and SIGTERM for a minute")
async def _stubborn(turn: Turn, argument: str) -> None:
    turn.ignores_cancel = True
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, lambda: None)
    signal.alarm(_STUBBORN_SECONDS)
    await turn.say("Only SIGKILL ends me.")
    await asyncio.sleep(_STUBBORN_SECONDS)


@command("end early", "answers the prompt and then says more")
async def _end_early(turn: Turn, argument: str) -> None:
    await turn.say("This belongs to the turn.")


@command("repeat", "announces and ends a tool call three times")
async def _repeat(turn: Turn, argument: str) -> None:
    for _ in range(3):
        await turn.update("tool_call", toolCallId="same", title="Look", kind="search", status="in_progress")
        await turn.update("tool_call_update", toolCallId="same", status="completed")


@command("unknown", "sends updates, notifications and requests of unknown kinds")
async def _unknown(turn: Turn, argument: str) -> None:
    await turn.update("new_thing", thing={"a": 1})
    await turn.update("tool_call", toolCallId=5)
    await turn.write({"method": "session/new_thing", "params": {"thing": 1}})
    await turn.write({"method": "_vendor/thing", "params": {}})
    answer = await turn.request("craft/drainMidTurnQueue")
    await turn.say(f"code {answer.get('error', {}).get('code')}")


@command("garbage", "writes lines that are not part of its protocol")
async def _garbage(turn: Turn, argument: str) -> None:
    for line in (
        b"Segmentation fault\n", b"{\n", b"[]\n", b"null\n", b"\xff\xfe\n", b'{"method": 5}\n', b'{"id": 99}\n',
        b'{"id": 99, "result": {}}\n', b'{"id": "no", "error": "text"}\n', b'{"method": "session/update"}\n',
        b'{"id": {}, "method": "fs/read_text_file"}\n', b'{"a": ' * 2000 + b"\n",
    ):  # fmt: skip
        await turn.write_raw(line)
    await turn.say("Sorry.")


@command("call", "calls a method of the client with JSON parameters, and shows the answer")
async def _call(turn: Turn, argument: str) -> None:
    method, _, params = argument.partition(" ")
    answer = await turn.request(method, **json.loads(params or "{}"))
    await turn.say(json.dumps(answer.get("result", answer.get("error"))))
