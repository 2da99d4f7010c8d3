"""Factory's SDK at work: `python sdk_client.py PROGRAM DIRECTORY`. Runs in the SDK's own environment; prints JSON.

A turn, a permission, a question and their answers in one process; the same session loaded in another; a fork and a
rewind of it.
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from droid_sdk import client, transport  # pyright: ignore[reportMissingImports]


class Talk:
    def __init__(self, droid: Any) -> None:
        self.droid = droid
        self.permissions: list[str] = []
        self.users: list[str] = []
        droid.set_permission_handler(self._permit)
        droid.set_ask_user_handler(self._reply)
        droid.on_notification(self._note)

    def _permit(self, params: dict[str, Any]) -> str:
        self.permissions.append(params["toolUses"][0]["confirmationType"])
        return "proceed_once"

    def _reply(self, params: dict[str, Any]) -> dict[str, Any]:
        answers = [
            {"index": one["index"], "question": one["question"], "answer": one["options"][-1]}
            for one in params["questions"]
        ]
        return {"cancelled": False, "answers": answers}

    def _note(self, note: dict[str, Any]) -> None:
        told = note.get("params", note).get("notification", note)
        if told.get("type") == "create_message" and told["message"]["role"] == "user":
            self.users.append(told["message"]["id"])

    async def turn(self, text: str) -> str:
        messages = self.droid.receive_response()
        first = asyncio.ensure_future(anext(messages))
        # Subscribed before the message goes: nothing of the answer is missed.
        await asyncio.sleep(0)
        await self.droid.add_user_message(text=text)
        said, message = "", await first
        while message is not None:
            if type(message).__name__ == "AssistantTextDelta":
                said += message.text
            message = await anext(messages, None)
        return said


@asynccontextmanager
async def talk(program: str, directory: str) -> AsyncIterator[Talk]:
    pipe = transport.ProcessTransport(exec_path=program, cwd=directory, env=dict(os.environ))
    async with client.DroidClient(transport=pipe) as droid:
        yield Talk(droid)


def asked(loaded: Any) -> list[str]:
    messages = json.loads(loaded.model_dump_json(by_alias=True))["session"]["messages"]
    return [one["content"][0]["text"] for one in messages if one["role"] == "user"]


async def main(program: str, directory: str) -> dict[str, Any]:
    found: dict[str, Any] = {}
    async with talk(program, directory) as here:
        begun = await here.droid.initialize_session(machine_id="sdk", cwd=directory)
        found["plain"] = await here.turn("say hello from the SDK")
        found["write"] = await here.turn("write made.txt content")
        found["permissions"] = here.permissions
        found["question"] = await here.turn("ask")
        found["models"] = len((await here.droid.list_models()).models)
        found["servers"] = (await here.droid.list_mcp_servers()).servers
        second = here.users[1]
    async with talk(program, directory) as here:
        loaded = await here.droid.load_session(session_id=begun.session_id)
        found["loaded"] = asked(loaded)
        found["recalled"] = await here.turn("what did I say?")
        fork = await here.droid.fork_session(title="Another try")
        info = await here.droid.get_rewind_info(message_id=second)
        rewound = await here.droid.execute_rewind(
            message_id=second,
            files_to_restore=info.available_files,
            files_to_delete=info.created_files,
            fork_title="Rewound",
        )
        found["files"] = [file.file_path for file in info.created_files]
        found["counted"] = rewound.deleted_count + rewound.failed_delete_count
        found["forked"] = asked(await here.droid.load_session(session_id=fork.new_session_id))
        found["rewound"] = asked(await here.droid.load_session(session_id=rewound.new_session_id))
        found["recalled_after"] = await here.turn("what did I say?")
    return found


if __name__ == "__main__":
    print(json.dumps(asyncio.run(main(sys.argv[1], sys.argv[2])), default=str))
