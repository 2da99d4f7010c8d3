"""Reads the same flood with Factory's SDK: `python sdk.py PROGRAM COUNT`. Prints characters and CPU seconds.

Runs in the SDK's own environment and therefore imports nothing of ours.
"""

from __future__ import annotations

import asyncio
import resource
import sys
import tempfile

from droid_sdk import client, transport  # pyright: ignore[reportMissingImports]


async def read(program: str, count: int) -> tuple[int, float]:
    characters = 0
    with tempfile.TemporaryDirectory() as folder:
        pipe = transport.ProcessTransport(exec_path=program, cwd=folder, env={"HOME": folder})
        async with client.DroidClient(transport=pipe) as droid:
            await droid.initialize_session(machine_id="bench", cwd=folder)
            before = _cpu()
            messages = droid.receive_response()
            first = asyncio.ensure_future(anext(messages))
            # Subscribe before the message is sent, so that nothing of the answer is missed.
            await asyncio.sleep(0)
            await droid.add_user_message(text=f"flood {count}")
            message = await first
            while message is not None:
                if type(message).__name__ == "AssistantTextDelta":
                    characters += len(message.text)
                message = await anext(messages, None)
            return characters, _cpu() - before


def _cpu() -> float:
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime


if __name__ == "__main__":
    print(*asyncio.run(read(sys.argv[1], int(sys.argv[2]))))
