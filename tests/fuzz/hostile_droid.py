"""A simulated Droid whose output is mutated on its way. The file `seed` of its directory chooses the mutations."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from pathlib import Path

from tests.fuzz.mutator import Mutator

_MUTATED = 0.2
_HANDSHAKE = 4
"""Lines at the start that are mostly left alone, so that a session begins."""


def main() -> int:
    command = [sys.executable, "-m", "tests.support.droid_simulator", *sys.argv[1:]]
    if "--version" in sys.argv:
        return subprocess.run(command, check=False).returncode
    place = Path("seed")
    mutator = Mutator(place.read_text() if place.exists() else "none")
    # Standard input goes to the simulator itself. Signals for the group reach it too.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    with subprocess.Popen(command, stdout=subprocess.PIPE) as simulator:
        signal.signal(signal.SIGTERM, lambda *_: simulator.terminate())
        assert simulator.stdout is not None
        try:
            spared = 0 if mutator.chance(0.2) else _HANDSHAKE
            for number, line in enumerate(simulator.stdout):
                mutated = number >= spared and mutator.chance(_MUTATED)
                sys.stdout.buffer.write(_mutate(mutator, line) if mutated else line)
                sys.stdout.buffer.flush()
        except BrokenPipeError:
            simulator.kill()
    return simulator.returncode


def _mutate(mutator: Mutator, line: bytes) -> bytes:
    kind = mutator.random.random()
    if kind < 0.6:
        return mutator.message(json.loads(line)) + b"\n"
    if kind < 0.8:
        return mutator.bytes(line)
    if kind < 0.9:
        return line * mutator.pick((2, 3, 500))
    return b"" if kind < 0.93 else mutator.bytes(line) + b"\n" + line


if __name__ == "__main__":
    sys.exit(main())
