"""`python -m tests.vendor.record [AGENT] [SCENARIO...]`: records the golden wire files anew.

Runs the scenarios of `tests/support/wire` with the real, pinned CLIs on the scripted model (`make test-agents` installs
them), and writes the exchanges to `tests/agents/AGENT/transcripts` and what the adapters make of them to `golden`.
Read the changes before committing.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys

from tests.support.wire.agents import AGENTS
from tests.support.wire.replay import write_golden
from tests.vendor.recordings import RECORD_VARIABLE


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.vendor.record", description=__doc__)
    parser.add_argument("agent", nargs="?", choices=[*AGENTS], help="all agents by default")
    parser.add_argument("scenario", nargs="*", help="all scenarios by default")
    options = parser.parse_args()
    failed = False
    for agent in [AGENTS[options.agent]] if options.agent else AGENTS.values():
        unknown = set(options.scenario) - set(agent.scenarios)
        if unknown:
            parser.error(f"no scenario {', '.join(sorted(unknown))} of {agent.name}")
        command = [sys.executable, "-m", "pytest", "-q", "-n", "2", "-m", "vendor"]
        environment = {**os.environ, RECORD_VARIABLE: ",".join(options.scenario) or "*"}
        run = subprocess.run([*command, f"tests/vendor/{agent.name}/test_recordings.py"], env=environment)
        failed = failed or run.returncode != 0
        for name in options.scenario or agent.scenarios:
            try:
                write_golden(agent, name)
            except (AssertionError, OSError, TimeoutError) as error:
                print(f"{agent.name} {name} cannot be replayed: {error}")
                failed = True
    sys.exit(failed)


if __name__ == "__main__":
    main()
