"""An agent behind the Agent Client Protocol, simulated."""

from __future__ import annotations

import argparse
import asyncio
import os
import signal
from pathlib import Path

from farsteer.jsonrpc.stdio import StdinReader, StdoutWriter, claim_stdio
from tests.support.acp_simulator.commands import COMMANDS
from tests.support.acp_simulator.simulator import FAULTS, Simulator


def main() -> None:
    told = [*FAULTS.items(), *((name, about) for name, (about, _) in COMMANDS.items())]
    epilog = "\n".join(f"  {name:<18}{about}" for name, about in told)
    parser = argparse.ArgumentParser(epilog=epilog, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("faults", nargs="*", metavar="FAULT")
    arguments = parser.parse_args()
    unknown = set(arguments.faults) - set(FAULTS)
    if unknown:
        parser.error(f"unknown faults: {', '.join(sorted(unknown))}")
    asyncio.run(_run(frozenset(arguments.faults)))


async def _make_database() -> None:
    made, begun = Path("..", "made.db"), Path("..", "begun.db")
    if not made.exists():
        begun.touch(exist_ok=False)
        await asyncio.sleep(0.2)
        made.touch()


async def _run(faults: frozenset[str]) -> None:
    if "makes_database" in faults:
        await _make_database()
    source, target = claim_stdio()
    writer = StdoutWriter(target)
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, os._exit, 0)
    await Simulator(writer, faults).run(StdinReader(source))
    await writer.flush(5.0)
    os._exit(0)


if __name__ == "__main__":
    main()
