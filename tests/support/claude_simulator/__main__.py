"""`claude -p --input-format stream-json --output-format stream-json`, simulated."""

from __future__ import annotations

import argparse
import asyncio
import os
import signal

from farsteer.jsonrpc.stdio import StdinReader, StdoutWriter, claim_stdio
from tests.support.claude_simulator.commands import COMMANDS
from tests.support.claude_simulator.simulator import Simulator
from tests.support.claude_simulator.store import StartFailed, open_conversation

VERSION = "2.1.326"


def main() -> None:
    epilog = "\n".join(f"  {name:<14}{about}" for name, (about, _) in COMMANDS.items())
    parser = argparse.ArgumentParser(
        prog="claude", epilog=epilog, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--version", action="version", version=f"{VERSION} (Claude Code)")
    for name in ("-p", "--verbose", "--include-partial-messages", "--replay-user-messages"):
        parser.add_argument(name, action="store_true", required=True)
    for name in ("--forward-subagent-text", "--fork-session"):
        parser.add_argument(name, action="store_true")
    for name in ("--input-format", "--output-format"):
        parser.add_argument(name, choices=["stream-json"], required=True)
    parser.add_argument("--permission-prompt-tool", choices=["stdio"], required=True)
    parser.add_argument("--permission-mode", choices=["default", "acceptEdits", "plan"], required=True)
    for name in ("--session-id", "--resume", "--resume-session-at", "--effort", "--agent", "--settings"):
        parser.add_argument(name)
    parser.add_argument("--model", default="sim-1")
    parser.add_argument("--add-dir", action="append", default=[])
    raise SystemExit(asyncio.run(_run(parser.parse_args())))


async def _run(given: argparse.Namespace) -> int:
    source, target = claim_stdio()
    writer = StdoutWriter(target)
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, os._exit, 143)
    try:
        conversation = open_conversation(
            given.session_id, given.resume, given.resume_session_at, fork=given.fork_session
        )
    except StartFailed as error:
        await error.report(writer)
        return 1
    simulator = Simulator(writer, conversation, given)
    code = await simulator.run(StdinReader(source))
    await writer.flush(5.0)
    os._exit(code)


if __name__ == "__main__":
    main()
