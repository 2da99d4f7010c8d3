"""Logs go to stderr; stdout is for what was asked for."""

from __future__ import annotations

import logging
import os
import sys


def log_to_stderr(level: int = logging.INFO) -> None:
    if os.environ.get("FARSTEER_DEBUG") == "1":
        level = logging.DEBUG
    logging.basicConfig(
        stream=sys.stderr,
        level=level,
        format="%(asctime)s %(levelname)s %(name)s: %(message)s",
        datefmt="%H:%M:%S",
    )
    # What libraries find worth telling is worth it when something is wrong.
    for library in ("asyncio", "httpcore", "httpx", "uvicorn", "websockets", "engineio", "socketio"):
        logging.getLogger(library).setLevel(max(level, logging.WARNING))
