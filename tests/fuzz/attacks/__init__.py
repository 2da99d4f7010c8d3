"""One module for each face. An attack is one connection, one conversation or one process."""

from __future__ import annotations

from tests.fuzz.attack import Attack, Play
from tests.fuzz.attacks import acp, agent, http, link, rest, socketio, sse, stdio

ATTACKS: dict[str, Play] = {
    "http": http.play,
    "rest": rest.play,
    "sse": sse.play,
    "socketio": socketio.play,
    "acp": acp.play,
    "link": link.play,
    "stdio": stdio.play,
    "agent": agent.play,
}

__all__ = ["ATTACKS", "Attack"]
