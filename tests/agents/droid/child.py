#!/usr/bin/env python3
"""A process that speaks just enough of Droid's protocol to misbehave. The message says what it does.

`say …` answers. `work` never ends. `big N` writes a line of N bytes first. `deaf` stops reading. `mute` exits at once.
With DRAIN set it outlives the end of its input and SIGTERM, as Droid does while it drains, and knows no close.
"""

import json
import os
import signal
import sys
import time

SESSION = "11111111-1111-4111-8111-111111111111"
STUBBORN = "FACTORY_TEST_DRAIN" in os.environ


def out(**line):
    envelope = {"jsonrpc": "2.0", "factoryApiVersion": "1.0.0", "factoryProtocolVersion": "1.206.0"}
    sys.stdout.write(json.dumps({**envelope, **line}) + "\n")
    sys.stdout.flush()


def note(**payload):
    params = {"notification": payload, "sessionId": SESSION}
    out(type="notification", method="droid.session_notification", params=params)


def turn(request):
    words = request["params"]["text"].split()
    out(type="response", id=request["id"], result={})
    note(type="droid_working_state_changed", newState="streaming_assistant_message")
    shown = {"id": "u1", "role": "user", "content": [{"type": "text", "text": request["params"]["text"]}]}
    note(type="create_message", message=shown, requestId=request["id"])
    if words[0] == "mute":
        os._exit(3)
    if words[0] == "big":
        sys.stdout.write("x" * int(words[1]) + "\n")
    if words[0] == "deaf":
        time.sleep(60)
    note(type="assistant_text_delta", messageId="a1", blockIndex=0, textDelta=" ".join(words[1:]) or "…")
    if words[0] == "work":
        return
    said = {"id": "a1", "role": "assistant", "content": [{"type": "text", "text": " ".join(words[1:])}]}
    note(type="create_message", message=said)
    note(type="agent_turn_completed", reason="completed", turnId="u1")
    note(type="droid_working_state_changed", newState="idle")


def main():
    if STUBBORN:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
    settings = {"modelId": "model-a", "interactionMode": "auto", "autonomyLevel": "off"}
    for line in sys.stdin:
        request = json.loads(line)
        match request.get("method"):
            case "droid.initialize_session" | "droid.load_session":
                out(type="response", id=request["id"], result={"sessionId": SESSION, "settings": settings})
            case "droid.add_user_message":
                turn(request)
            case "droid.close_session" if not STUBBORN:
                out(type="response", id=request["id"], result={})
                return
            case "droid.interrupt_session":
                out(type="response", id=request["id"], result={})
                note(type="agent_turn_completed", reason="cancelled", turnId="u1")
    if STUBBORN:
        time.sleep(60)


main()
