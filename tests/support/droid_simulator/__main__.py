"""`droid exec --input-format stream-jsonrpc --output-format stream-jsonrpc`, simulated."""

from __future__ import annotations

import argparse
import asyncio
import os
import signal

from farsteer.jsonrpc.stdio import StdinReader, StdoutWriter, claim_stdio
from tests.support.droid_simulator.commands import COMMANDS
from tests.support.droid_simulator.faults import FAULTS
from tests.support.droid_simulator.output import SessionOutput
from tests.support.droid_simulator.profile import PROFILES, Profile
from tests.support.droid_simulator.simulator import Simulator


def main() -> None:
    lists = (
        {name: about for name, (about, _) in COMMANDS.items()},
        {f"--misbehave {name}": about for name, about in FAULTS.items()},
    )
    epilog = "\n\n".join("\n".join(f"  {name:<28}{about}" for name, about in one.items()) for one in lists)
    parser = argparse.ArgumentParser(
        prog="droid", epilog=epilog, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--profile", choices=[*PROFILES], default="0.215")
    parser.add_argument("--misbehave", choices=[*FAULTS], action="append", default=[])
    parser.add_argument("--drain", type=float, default=30.0, help="how long it works on after its last line")
    parser.add_argument("--version", action="store_true")
    arguments, _ = parser.parse_known_args()
    profile = PROFILES[arguments.profile]
    if arguments.version:
        print(f"{profile.dialect.version}.0")
        return
    asyncio.run(_run(profile, frozenset(arguments.misbehave), arguments.drain))


async def _run(profile: Profile, faults: frozenset[str], drain: float) -> None:
    source, target = claim_stdio()
    writer = StdoutWriter(target)
    simulator = Simulator(SessionOutput(profile, writer, faults), drain)
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, simulator.terminate)
    await simulator.run(StdinReader(source))
    await writer.flush(5.0)
    os._exit(0)


if __name__ == "__main__":
    main()
