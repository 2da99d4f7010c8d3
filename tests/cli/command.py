"""Runs the real `farsteer` command as a process."""

from __future__ import annotations

import asyncio
import sys
from asyncio.subprocess import PIPE, Process
from dataclasses import dataclass
from pathlib import Path
from typing import Any

SECONDS = 45.0


@dataclass(frozen=True, slots=True)
class Result:
    code: int
    out: str
    err: str

    @property
    def lines(self) -> list[str]:
        return self.out.splitlines()


async def start(*argv: str, **options: Any) -> Process:
    options = {"stdin": asyncio.subprocess.DEVNULL, "stdout": PIPE, "stderr": PIPE, **options}
    return await asyncio.create_subprocess_exec(sys.executable, "-m", "farsteer", *argv, **options)


async def finish(process: Process, text: str | None = None) -> Result:
    async with asyncio.timeout(SECONDS):
        out, err = await process.communicate(None if text is None else text.encode())
    assert process.returncode is not None
    return Result(process.returncode, out.decode(), err.decode())


async def farsteer(*argv: str, text: str | None = None, cwd: Path | str | None = None) -> Result:
    """Run a command to its end; `text` is its stdin."""
    stdin = asyncio.subprocess.DEVNULL if text is None else PIPE
    return await finish(await start(*argv, stdin=stdin, cwd=cwd), text)
