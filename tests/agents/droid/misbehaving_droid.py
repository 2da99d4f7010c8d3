#!/usr/bin/env python3
"""A process that speaks just enough of Droid's protocol to misbehave. The message says how.

`say …` answers. `work` never ends. `big N` writes a line of N bytes first. `deaf` stops reading. `mute` exits at once.
With FACTORY_TEST_DRAIN it ignores the end of its input and SIGTERM, as Droid does while it drains, and has no
close_session.
"""

import json
import os
import signal
import sys
import time

SESSION = "11111111-1111-4111-8111-111111111111"
DRAINS = "FACTORY_TEST_DRAIN" in os.environ


def write(**line):
    envelope = {"jsonrpc": "2.0", "factoryApiVersion": "1.0.0", "factoryProtocolVersion": "1.206.0"}
    sys.stdout.write(json.dumps({**envelope, **line}) + "\n")
    sys.stdout.flush()


def notify(**payload):
    params = {"notification": payload, "sessionId": SESSION}
    write(type="notification", method="droid.session_notification", params=params)


def run_turn(request):
    words = request["params"]["text"].split()
    write(type="response", id=request["id"], result={})
    notify(type="droid_working_state_changed", newState="streaming_assistant_message")
    shown = {"id": "u1", "role": "user", "content": [{"type": "text", "text": request["params"]["text"]}]}
    notify(type="create_message", message=shown, requestId=request["id"])
    if words[0] == "mute":
        os._exit(3)
    if words[0] == "big":
        sys.stdout.write("x" * int(words[1]) + "\n")
    if words[0] == "deaf":
        time.sleep(60)
    notify(type="assistant_text_delta", messageId="a1", blockIndex=0, textDelta=" ".join(words[1:]) or "…")
    if words[0] == "work":
        return
    answer = {"id": "a1", "role": "assistant", "content": [{"type": "text", "text": " ".join(words[1:])}]}
    notify(type="create_message", message=answer)
    notify(type="agent_turn_completed", reason="completed", turnId="u1")
    notify(type="droid_working_state_changed", newState="idle")


def main():
    if DRAINS:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
    settings = {"modelId": "model-a", "interactionMode": "auto", "autonomyLevel": "off"}
    for line in sys.stdin:
        request = json.loads(line)
        match request.get("method"):
            case "droid.initialize_session" | "droid.load_session":
                write(type="response", id=request["id"], result={"sessionId": SESSION, "settings": settings})
            case "droid.add_user_message":
                run_turn(request)
            case "droid.close_session" if not DRAINS:
                write(type="response", id=request["id"], result={})
                return
            case "droid.interrupt_session":
                write(type="response", id=request["id"], result={})
                notify(type="agent_turn_completed", reason="cancelled", turnId="u1")
    if DRAINS:
        time.sleep(60)


main()
