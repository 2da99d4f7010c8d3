"""What the simulator does in a turn, by the first words of the user's text."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Awaitable, Callable
from typing import Any

from farsteer.core.ids import new_id
from tests.support.codex_simulator.turn import Turn

Command = Callable[[Turn, str], Awaitable[None]]
COMMANDS: dict[str, tuple[str, Command]] = {}
_STUBBORN_SECONDS = 60
_USAGE = {
    "totalTokens": 110, "inputTokens": 100, "cachedInputTokens": 0, "outputTokens": 10, "reasoningOutputTokens": 0,
}  # fmt: skip


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
    await turn.notify("thread/tokenUsage/updated", tokenUsage={"total": _USAGE, "last": _USAGE})


@command("work", "says a word every 50 ms, for a minute")
async def _work(turn: Turn, argument: str) -> None:
    await turn.say(" ".join(f"word{number}" for number in range(1200)), pace=0.05)


@command("recall", "repeats the user's messages so far")
async def _recall(turn: Turn, argument: str) -> None:
    await turn.say("\n".join(_texts(turn, "userMessage")) or "nothing")


@command("transcript", "repeats all messages so far")
async def _transcript(turn: Turn, argument: str) -> None:
    await turn.say("\n".join(_texts(turn, "userMessage", "agentMessage", "reasoning")) or "nothing")


def _texts(turn: Turn, *kinds: str) -> list[str]:
    earlier = [item for one in turn.thread.turns if one["id"] != turn.id for item in one["items"]]
    return [_text(item) for item in earlier if item["type"] in kinds]


def _text(item: dict[str, Any]) -> str:
    match item["type"]:
        case "userMessage":
            return "\n".join(part["text"] for part in item["content"])
        case "reasoning":
            return "\n".join(item["summary"])
        case _:
            return item["text"]


@command("settings", "says its approval policy, sandbox, model, effort and mode")
async def _settings(turn: Turn, argument: str) -> None:
    given = turn.thread.settings
    names = ("approvalPolicy", "sandbox", "model", "effort", "mode")
    await turn.say(" ".join(str(given.get(name)) for name in names))


@command("run", "runs a shell command")
async def _run(turn: Turn, argument: str) -> None:
    await turn.run_command(argument)
    await turn.say("Done.")


@command("write", "writes a file: its name and its text")
async def _write(turn: Turn, argument: str) -> None:
    name, _, text = argument.partition(" ")
    await turn.change_file(name, text)
    await turn.say("Done.")


@command("write two", "writes two files at once")
async def _write_two(turn: Turn, argument: str) -> None:
    await asyncio.gather(*(turn.change_file(name, "text") for name in argument.split()))
    await turn.say("Done.")


@command("ask", "asks which color")
async def _ask(turn: Turn, argument: str) -> None:
    options = [{"label": "Red", "description": "warm"}, {"label": "Blue", "description": "cold"}]
    question = {"id": "color", "header": "Color", "question": "Which color?", "options": options}
    answer = await turn.request("item/tool/requestUserInput", itemId=f"call_{new_id()}", questions=[question])
    given = answer.get("result", {}).get("answers", {}).get("color", {}).get("answers", [])
    await turn.say(f"You chose {' and '.join(given) or 'nothing'}.")


# -- sub-agents, errors, faults


@command("sub-agent", "starts a sub-agent, whose turn ends before its own")
async def _sub_agent(turn: Turn, argument: str) -> None:
    main, child, call = turn.thread_id, new_id(), f"call_{new_id()}"
    item = {
        "type": "collabAgentToolCall",
        "id": call,
        "tool": "spawnAgent",
        "prompt": "look",
        "status": "inProgress",
    }
    await turn.notify("item/started", item=item)
    await turn.notify("thread/started", thread={"id": child, "parentThreadId": main, "agentNickname": "Ada"})
    await turn.add_item({**item, "status": "completed", "receiverThreadIds": [child]})
    turn.thread_id = child
    await turn.think("the sub-agent thinks")
    await turn.say("The sub-agent answers.")
    ended = {"id": new_id(), "status": "failed", "items": [], "error": {"message": "it failed"}}
    await turn.notify("turn/completed", turn=ended)
    turn.thread_id = main
    await turn.say("The agent answers.")


@command("fail", "fails with this code, after a retry")
async def _fail(turn: Turn, argument: str) -> None:
    message_id = await turn.begin_message()
    await turn.notify("item/agentMessage/delta", itemId=message_id, delta="broken ")
    error = {"message": "the model failed", "codexErrorInfo": argument, "additionalDetails": None}
    await turn.notify("error", error=error, willRetry=True)
    await turn.say("Once more.")
    await turn.notify("error", error=error, willRetry=False)
    await turn.end("failed", error)


@command("crash", "dies at once")
async def _crash(turn: Turn, argument: str) -> None:
    await asyncio.sleep(0.05)
    os.kill(os.getpid(), signal.SIGKILL)


@command("crash mid", "dies in the middle of a message")
async def _crash_mid(turn: Turn, argument: str) -> None:
    message_id = await turn.begin_message()
    await turn.notify("item/agentMessage/delta", itemId=message_id, delta="This message will never be ")
    await _crash(turn, argument)


@command("stubborn", "ignores interrupts, the end of its input and SIGTERM for a minute")
async def _stubborn(turn: Turn, argument: str) -> None:
    turn.ignores_interrupts = True
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, lambda: None)
    signal.alarm(_STUBBORN_SECONDS)
    message_id = await turn.begin_message()
    await turn.notify("item/agentMessage/delta", itemId=message_id, delta="Only SIGKILL ends me.")
    await asyncio.sleep(_STUBBORN_SECONDS)


@command("end early", "reports the end of the turn and then says more")
async def _end_early(turn: Turn, argument: str) -> None:
    await turn.say("This belongs to the turn.")
    await turn.end("completed")
    await turn.say("This comes after its end.")


@command("repeat", "says everything more than once")
async def _repeat(turn: Turn, argument: str) -> None:
    item = {"type": "agentMessage", "id": f"msg_{new_id()}", "text": "Said once."}
    for _ in range(3):
        await turn.notify("item/started", item=item)
        await turn.notify("item/completed", item=item)
    for _ in range(2):
        ended = {"id": turn.id, "status": "completed", "items": [], "error": None}
        await turn.notify("turn/completed", turn=ended)
    turn.is_over = True
    turn.save("completed")


@command("unknown", "sends messages, items and requests of unknown kinds")
async def _unknown(turn: Turn, argument: str) -> None:
    await turn.notify("thread/newThing", thing={"a": 1})
    await turn.notify("item/completed", item={"type": "newItem", "id": "x", "thing": [1]})
    await turn.notify("item/started", item={"type": "agentMessage"})
    answer = await turn.request("item/newThing/requestApproval", itemId="x")
    await turn.say("refused" if "error" in answer else "allowed")


@command("garbage", "writes lines that are not part of its protocol")
async def _garbage(turn: Turn, argument: str) -> None:
    for line in (
        b"thread 'main' panicked\n", b"{\n", b"[]\n", b"null\n", b"\xff\xfe\n", b'{"method": 5}\n', b'{"id": 99}\n',
        b'{"id": 99, "result": {}}\n', b'{"id": "no", "error": "text"}\n', b'{"method": "turn/completed"}\n',
        b'{"id": null, "error": {"code": "x"}}\n', b'{"a": ' * 2000 + b"\n",
    ):  # fmt: skip
        await turn.write_raw(line)
    await turn.say("Sorry.")
