"""The stock server itself, run as a program with its port."""

from __future__ import annotations

import asyncio
import sys
import time
from uuid import uuid4

import socketio
import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from bench import wire

ROOM = "default"
PER_TICK = 10
"""Messages of a burst per turn of the event loop, as if they came from a socket."""

sio = socketio.AsyncServer(async_mode="asgi")


async def connect(sid: str, environ: dict[str, object]) -> None:
    await sio.enter_room(sid, ROOM, namespace="/events")


sio.on("connect", connect, namespace="/events")


async def emit(request: Request) -> Response:
    messages = int(request.query_params["messages"])
    rate = float(request.query_params["rate"])
    pace = wire.Pace(rate) if rate else None
    session = str(uuid4())
    for number in range(messages):
        text = wire.text(number, pace and pace.born(number))
        event = {
            "type": "message-received",
            "namespace": ROOM,
            "sessionId": session,
            "message": {
                "id": str(uuid4()),
                "seq": number + 1,
                "role": "agent",
                "createdAt": int(time.time() * 1000),
                "content": {"kind": "agent_message", "messageId": str(number), "text": text},
            },
        }
        if pace is not None:
            await asyncio.sleep(pace.wait(number))
        elif number % PER_TICK == 0:
            await asyncio.sleep(0)
        await sio.emit("event", event, room=ROOM, namespace="/events")
    return Response(status_code=204)


app = socketio.ASGIApp(sio, Starlette(routes=[Route("/emit", emit, methods=["POST"])]))

if __name__ == "__main__":
    uvicorn.run(
        app,
        host=wire.HOST,
        port=int(sys.argv[1]),
        loop="uvloop",
        http="httptools",
        ws="websockets-sansio",
        access_log=False,
    )
