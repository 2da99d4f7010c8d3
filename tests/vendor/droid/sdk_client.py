"""Uses Factory's SDK: `python sdk_client.py PROGRAM DIRECTORY`. Runs in the SDK's own environment and prints JSON.

One process: a turn, a permission, a question and their answers. Another process: the same session, loaded, forked and
rewound.
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


class Client:
    def __init__(self, droid: Any) -> None:
        self.droid = droid
        self.permissions: list[str] = []
        self.user_message_ids: list[str] = []
        droid.set_permission_handler(self._allow)
        droid.set_ask_user_handler(self._choose_last)
        droid.on_notification(self._handle_notification)

    def _allow(self, params: dict[str, Any]) -> str:
        self.permissions.append(params["toolUses"][0]["confirmationType"])
        return "proceed_once"

    def _choose_last(self, params: dict[str, Any]) -> dict[str, Any]:
        answers = [
            {"index": one["index"], "question": one["question"], "answer": one["options"][-1]}
            for one in params["questions"]
        ]
        return {"cancelled": False, "answers": answers}

    def _handle_notification(self, line: dict[str, Any]) -> None:
        payload = line.get("params", line).get("notification", line)
        if payload.get("type") == "create_message" and payload["message"]["role"] == "user":
            self.user_message_ids.append(payload["message"]["id"])

    async def turn(self, text: str) -> str:
        messages = self.droid.receive_response()
        first = asyncio.ensure_future(anext(messages))
        # Subscribe before the message is sent, so that nothing of the answer is missed.
        await asyncio.sleep(0)
        await self.droid.add_user_message(text=text)
        said, message = "", await first
        while message is not None:
            if type(message).__name__ == "AssistantTextDelta":
                said += message.text
            message = await anext(messages, None)
        return said


@asynccontextmanager
async def connect(program: str, directory: str) -> AsyncIterator[Client]:
    pipe = transport.ProcessTransport(exec_path=program, cwd=directory, env=dict(os.environ))
    async with client.DroidClient(transport=pipe) as droid:
        yield Client(droid)


def user_texts(loaded: Any) -> list[str]:
    messages = json.loads(loaded.model_dump_json(by_alias=True))["session"]["messages"]
    return [one["content"][0]["text"] for one in messages if one["role"] == "user"]


async def main(program: str, directory: str) -> dict[str, Any]:
    found: dict[str, Any] = {}
    async with connect(program, directory) as sdk:
        begun = await sdk.droid.initialize_session(machine_id="sdk", cwd=directory)
        found["plain"] = await sdk.turn("say hello from the SDK")
        found["write"] = await sdk.turn("write made.txt content")
        found["permissions"] = sdk.permissions
        found["question"] = await sdk.turn("ask")
        found["models"] = len((await sdk.droid.list_models()).models)
        found["servers"] = (await sdk.droid.list_mcp_servers()).servers
        second = sdk.user_message_ids[1]
    async with connect(program, directory) as sdk:
        loaded = await sdk.droid.load_session(session_id=begun.session_id)
        found["loaded"] = user_texts(loaded)
        found["recalled"] = await sdk.turn("what did I say?")
        fork = await sdk.droid.fork_session(title="Another try")
        info = await sdk.droid.get_rewind_info(message_id=second)
        rewound = await sdk.droid.execute_rewind(
            message_id=second,
            files_to_restore=info.available_files,
            files_to_delete=info.created_files,
            fork_title="Rewound",
        )
        found["files"] = [file.file_path for file in info.created_files]
        found["counted"] = rewound.deleted_count + rewound.failed_delete_count
        found["forked"] = user_texts(await sdk.droid.load_session(session_id=fork.new_session_id))
        found["rewound"] = user_texts(await sdk.droid.load_session(session_id=rewound.new_session_id))
        found["recalled_after"] = await sdk.turn("what did I say?")
    return found


if __name__ == "__main__":
    print(json.dumps(asyncio.run(main(sys.argv[1], sys.argv[2])), default=str))
