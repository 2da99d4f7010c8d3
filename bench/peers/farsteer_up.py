"""`farsteer up`, run as a program, with the demo agent of farsteer_agent.py."""

from __future__ import annotations

import sys
from pathlib import Path

from farsteer.agents.demo import adapter
from farsteer.cli.main import main

if __name__ == "__main__":
    agent = Path(__file__).with_name("farsteer_agent.py")
    adapter.ARGV = (sys.executable, "-I", str(agent))
    sys.exit(main(["up", *sys.argv[1:]]))
