"""`python -m tests.support.model --port 0 --log FILE`: the scripted model as a program."""

from __future__ import annotations

import argparse
import asyncio
import signal
from pathlib import Path

from tests.support.model.log import Log
from tests.support.model.model import Model
from tests.support.model.server import HOST, run


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.support.model", description=__doc__)
    parser.add_argument("--port", type=int, default=0, help="0 takes a free one")
    parser.add_argument("--port-file", type=Path, help="write the port here when it listens")
    parser.add_argument("--log", type=Path, help="one JSON line for each request")
    parser.add_argument("--dump", type=Path, help="write each request, whole, into this directory")
    parser.add_argument("--delay", type=float, default=0.0, help="seconds between the pieces of a stream")
    asyncio.run(_run(parser.parse_args()))


async def _run(options: argparse.Namespace) -> None:
    if options.dump is not None:
        options.dump.mkdir(parents=True, exist_ok=True)
    stop = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, stop.set)

    def ready(port: int) -> None:
        if options.port_file is not None:
            options.port_file.write_text(f"{port}\n")
        print(f"listening on http://{HOST}:{port}", flush=True)

    await run(Model(Log(options.log, options.dump), options.delay), options.port, ready, stop)


if __name__ == "__main__":
    main()
