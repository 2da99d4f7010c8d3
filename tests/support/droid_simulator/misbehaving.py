"""What goes wrong on request. Each of these is something that a Droid has done."""

from __future__ import annotations

import asyncio
import os
import signal

from farsteer.core.ids import new_id
from farsteer.faces.droid import notes
from farsteer.faces.droid.notes import Text
from tests.support.droid_simulator.commands import command
from tests.support.droid_simulator.turn import Over, Turn

SWITCHES = {
    "duplicates": "tells settings, states, messages, tool calls and results twice",
    "double-response": "answers every message twice",
    "premature-idle": "says it is idle before the last message of a turn",
    "completed-early": "says that a turn is completed before its last message",
    "id-null-errors": "answers what it does not understand without saying to what",
    "strange-keys": "puts fields nobody knows into what it says",
    "hang-at-eof": "does not end with its input while a person is asked",
}
_STUBBORN_SECONDS = 60
_FLOOD_BATCH = 200


@command("crash", "dies at once")
async def _crash(turn: Turn, argument: str) -> None:
    await _die(turn)


@command("crash mid", "dies in the middle of a message")
async def _crash_mid(turn: Turn, argument: str) -> None:
    await turn.voice.delta(new_id(), 0, "This message will never be ")
    await _die(turn)


async def _die(turn: Turn) -> None:
    """What was said before has arrived."""
    await turn.voice.flush(5.0)
    os.kill(os.getpid(), signal.SIGKILL)


@command("stubborn", "ignores interrupts, the end of its input and SIGTERM for a minute")
async def _stubborn(turn: Turn, argument: str) -> None:
    turn.deaf = True
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, lambda: None)
    signal.alarm(_STUBBORN_SECONDS)
    await turn.say("Only SIGKILL ends me.")
    await asyncio.sleep(_STUBBORN_SECONDS)


@command("hang", "says nothing more until it is interrupted")
async def _hang(turn: Turn, argument: str) -> None:
    await asyncio.Event().wait()


@command("end early", "says that the turn is over, and then says more")
async def _end_early(turn: Turn, argument: str) -> None:
    await turn.say("This belongs to the turn.")
    await turn.end_now()
    await turn.say("This comes after its end.")


@command("repeat", "says everything more than once")
async def _repeat(turn: Turn, argument: str) -> None:
    voice = turn.voice
    message = voice.message("assistant", Text(text="Said once."))
    await voice.delta(message.id, 0, "Said once.")
    for _ in range(3):
        await voice.note(notes.CreateMessage(message=message))
    await turn.end_now()
    await voice.state("idle")


@command("retry", "streams an answer again after the model failed, that many times")
async def _retry(turn: Turn, argument: str) -> None:
    voice, message_id = turn.voice, new_id()
    for attempt in range(1, int(argument or 2) + 1):
        await voice.delta(message_id, 0, "The answer ")
        await voice.delta(message_id, 0, "is")
        if voice.profile.completes:
            await voice.note(notes.Retry(attempt=attempt, reason="overloaded"))
        else:
            raise Over
    for word in ("The answer ", "is ", "42."):
        await voice.delta(message_id, 0, word)
    await voice.told(voice.message("assistant", Text(text="The answer is 42."), id=message_id))


@command("retract", "takes back what it has streamed and says something else")
async def _retract(turn: Turn, argument: str) -> None:
    message_id = new_id()
    await turn.voice.delta(message_id, 0, "again and again and again")
    if turn.voice.profile.completes:
        await turn.voice.note(notes.Retracted(message_id=message_id))
    await turn.say("Something else.", last=True)


@command("truncate", "takes an answer that was cut short for a whole one")
async def _truncate(turn: Turn, argument: str) -> None:
    await turn.say("The answer is four", last=True)


@command("fail", "ends with an error of the model")
async def _fail(turn: Turn, argument: str) -> None:
    await turn.voice.note(notes.failure("401 Incorrect API key", "Error"))
    text = Text(text="BYOK Error: 401 Incorrect API key")
    await turn.voice.told(turn.voice.message("system", text, visibility="user_only"))
    turn.reason = "model_authentication_failed"


@command("bigline", "says a message of that many kilobytes (700) on one line")
async def _bigline(turn: Turn, argument: str) -> None:
    text = "x" * (int(argument or 700) * 1000)
    await turn.voice.told(turn.voice.message("assistant", Text(text=text)))


@command("unknown", "tells what nobody has heard of")
async def _unknown(turn: Turn, argument: str) -> None:
    await turn.voice.note({"type": "telepathy", "strength": 3})
    await turn.say("That was telepathy.", last=True)


@command("garbage", "writes what is no line of the protocol")
async def _garbage(turn: Turn, argument: str) -> None:
    await turn.voice.write(b'Warning: this is no JSON\n\xff\xfe\n[1,2]\n{"type":\n\n')
    await turn.say("That was garbage.", last=True)


@command("flood", "streams that many fragments, and a message after each two hundred")
async def _flood(turn: Turn, argument: str) -> None:
    voice, text, left = turn.voice, "The quick brown fox jumps over the lazy dog. ", int(argument or 1000)
    while left > 0:
        count, message_id = min(left, _FLOOD_BATCH), new_id()
        note = notes.TextDelta(message_id=message_id, block_index=0, text_delta=text)
        await voice.write(voice.writing.note(note, voice.here.id) * count)
        message = voice.message("assistant", Text(text=text * count), id=message_id)
        await voice.note(notes.CreateMessage(message=message))
        left -= count
