"""Faults on request. Each of them is something that a version of Droid has done."""

from __future__ import annotations

import asyncio
import os
import signal

from farsteer.core.droid import USER_ONLY, WorkingState
from farsteer.core.ids import new_id
from farsteer.faces.droid import protocol
from farsteer.faces.droid.protocol import TextContent
from tests.support.droid_simulator.commands import command
from tests.support.droid_simulator.turn import Turn, TurnOver

FAULTS = {
    "duplicates": "sends settings, states, messages, tool calls and results twice",
    "double-response": "answers every message twice",
    "premature-idle": "reports idle before the last message of a turn",
    "completed-early": "reports the turn completed before its last message",
    "id-null-errors": "answers invalid requests without their id",
    "strange-keys": "adds unknown fields to what it sends",
    "keeps-autonomy": "goes back to the highest autonomy whenever its settings are changed, after `loosen`",
    "hang-at-eof": "does not exit at the end of its input while an approval is open",
}
_STUBBORN_SECONDS = 60
_FLOOD_BATCH = 200


@command("crash", "dies at once")
async def _crash(turn: Turn, argument: str) -> None:
    await _die(turn)


@command("crash mid", "dies in the middle of a message")
async def _crash_mid(turn: Turn, argument: str) -> None:
    await turn.output.delta(new_id(), 0, "This message will never be ")
    await _die(turn)


async def _die(turn: Turn) -> None:
    """Die after everything written so far has arrived."""
    await turn.output.flush(5.0)
    os.kill(os.getpid(), signal.SIGKILL)


@command("stubborn", "ignores interrupts, the end of its input and SIGTERM for a minute")
async def _stubborn(turn: Turn, argument: str) -> None:
    turn.ignores_interrupts = True
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, lambda: None)
    signal.alarm(_STUBBORN_SECONDS)
    await turn.say("Only SIGKILL ends me.")
    await asyncio.sleep(_STUBBORN_SECONDS)


@command("hang", "writes nothing more until it is interrupted")
async def _hang(turn: Turn, argument: str) -> None:
    await asyncio.Event().wait()


@command("loosen", "raises its autonomy without having been asked")
async def _loosen(turn: Turn, argument: str) -> None:
    turn.output.raise_autonomy()
    await turn.output.notify_settings()
    await turn.say("I ask nobody any more.")
    if "keeps-autonomy" in turn.output.faults:
        turn.output.keeps_autonomy = True
        await asyncio.Event().wait()


@command("end early", "reports the end of the turn and then says more")
async def _end_early(turn: Turn, argument: str) -> None:
    await turn.say("This belongs to the turn.")
    await turn.end_now()
    await turn.say("This comes after its end.")


@command("repeat", "says everything more than once")
async def _repeat(turn: Turn, argument: str) -> None:
    output = turn.output
    message = output.build_message("assistant", TextContent(text="Said once."))
    await output.delta(message.id, 0, "Said once.")
    for _ in range(3):
        await output.notify(protocol.CreateMessage(message=message))
    await turn.end_now()
    await output.change_state(WorkingState.IDLE)


@command("retry", "streams an answer again after the model failed, that many times")
async def _retry(turn: Turn, argument: str) -> None:
    output, message_id = turn.output, new_id()
    for attempt in range(1, int(argument or 2) + 1):
        await output.delta(message_id, 0, "The answer ")
        await output.delta(message_id, 0, "is")
        if output.profile.completes_turns:
            await output.notify(protocol.ModelRetry(attempt=attempt, reason="overloaded"))
        else:
            raise TurnOver
    for word in ("The answer ", "is ", "42."):
        await output.delta(message_id, 0, word)
    answer = TextContent(text="The answer is 42.")
    await output.add_message(output.build_message("assistant", answer, id=message_id))


@command("retract", "retracts what it has streamed and says something else")
async def _retract(turn: Turn, argument: str) -> None:
    message_id = new_id()
    await turn.output.delta(message_id, 0, "again and again and again")
    if turn.output.profile.completes_turns:
        await turn.output.notify(protocol.MessageRetracted(message_id=message_id))
    await turn.say("Something else.", last=True)


@command("truncate", "treats an answer that was cut off as complete")
async def _truncate(turn: Turn, argument: str) -> None:
    await turn.say("The answer is four", last=True)


@command("fail", "ends with an error of the model")
async def _fail(turn: Turn, argument: str) -> None:
    output = turn.output
    await output.notify(protocol.report_error("401 Incorrect API key", "Error"))
    text = TextContent(text="BYOK Error: 401 Incorrect API key")
    await output.add_message(output.build_message("system", text, visibility=USER_ONLY))
    turn.reason = "model_authentication_failed"


@command("bigline", "says a message of that many kilobytes (700) on one line")
async def _bigline(turn: Turn, argument: str) -> None:
    text = TextContent(text="x" * (int(argument or 700) * 1000))
    await turn.output.add_message(turn.output.build_message("assistant", text))


@command("unknown", "sends a notification of an unknown kind")
async def _unknown(turn: Turn, argument: str) -> None:
    await turn.output.notify({"type": "telepathy", "strength": 3})
    await turn.say("That was telepathy.", last=True)


@command("garbage", "writes lines that are not part of the protocol")
async def _garbage(turn: Turn, argument: str) -> None:
    await turn.output.write(b'Warning: this is no JSON\n\xff\xfe\n[1,2]\n{"type":\n\n')
    await turn.say("That was garbage.", last=True)


@command("flood", "streams that many deltas, and a message after every two hundred")
async def _flood(turn: Turn, argument: str) -> None:
    output, text, left = turn.output, "The quick brown fox jumps over the lazy dog. ", int(argument or 1000)
    while left > 0:
        count, message_id = min(left, _FLOOD_BATCH), new_id()
        delta = protocol.TextDelta(message_id=message_id, block_index=0, text_delta=text)
        await output.write(output.encoder.notification(delta, output.current.id) * count)
        message = output.build_message("assistant", TextContent(text=text * count), id=message_id)
        await output.notify(protocol.CreateMessage(message=message))
        left -= count
