"""`codex app-server`, simulated."""

from __future__ import annotations

import argparse
import asyncio
import os
import signal

from farsteer.jsonrpc.stdio import StdinReader, StdoutWriter, claim_stdio
from tests.support.codex_simulator.commands import COMMANDS
from tests.support.codex_simulator.simulator import Simulator

VERSION = "0.169.0"


def main() -> None:
    epilog = "\n".join(f"  {name:<14}{about}" for name, (about, _) in COMMANDS.items())
    parser = argparse.ArgumentParser(
        prog="codex", epilog=epilog, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--version", action="version", version=f"codex-cli {VERSION}")
    parser.add_argument("command", choices=["app-server"])
    parser.parse_args()
    asyncio.run(_run())


async def _run() -> None:
    source, target = claim_stdio()
    writer = StdoutWriter(target)
    simulator = Simulator(writer)
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, os._exit, 0)
    await simulator.run(StdinReader(source))
    await writer.flush(5.0)
    os._exit(0)


if __name__ == "__main__":
    main()
