"""Client generators that others use understand the OpenAPI document without a warning, and their clients work."""

from __future__ import annotations

import asyncio
import json
import os
import sys
from asyncio.subprocess import PIPE, STDOUT
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

from tests.support.node import JS, NODE
from tests.support.stack import OWNER, Account, Stack

BIN = Path(sys.executable).parent
PROGRAM = JS / "generated_client.ts"


async def run(*argv: Path | str) -> str:
    """Run a program to its end and return what it printed. It must succeed."""
    env = {**os.environ, "PATH": f"{BIN}:{os.environ['PATH']}", "NO_COLOR": "1", "NODE_NO_WARNINGS": "1"}
    process = await asyncio.create_subprocess_exec(*argv, stdout=PIPE, stderr=STDOUT, env=env)
    output, _ = await process.communicate()
    assert process.returncode == 0, output.decode()
    return output.decode()


@pytest.fixture
async def openapi(stack: Stack, tmp_path: Path) -> Path:
    """The document of a running hub."""
    file = tmp_path / "openapi.json"
    file.write_bytes((await (await stack.connect()).get("/openapi.json")).content)
    return file


async def test_openapi_typescript(stack: Stack, openapi: Path, tmp_path: Path) -> None:
    schema = tmp_path / "schema.d.ts"
    printed = await run(NODE, JS / "node_modules/openapi-typescript/bin/cli.js", openapi, "-o", schema)
    assert "warn" not in printed.lower(), printed
    options = {
        "strict": True, "noEmit": True, "target": "es2022", "module": "nodenext", "lib": ["es2022", "dom"],
        "types": [], "exactOptionalPropertyTypes": True, "noUncheckedIndexedAccess": True, "skipLibCheck": True,
        "paths": {"farsteer-schema": [str(schema)]},
    }  # fmt: skip
    config = tmp_path / "tsconfig.json"
    config.write_text(json.dumps({"compilerOptions": options, "files": [str(PROGRAM), str(schema)]}))
    assert await run(NODE, JS / "node_modules/typescript/bin/tsc", "--project", config) == ""

    told = json.loads(await run(NODE, PROGRAM, stack.url, OWNER, stack.directory()))
    assert {"session-updated", "message-received"} <= set(told.pop("types"))
    assert told.pop("state") in ("accepted", "queued")
    assert "".join(told.pop("texts"))
    assert told == {"ok": True, "code": "not_found", "roots": 0, "resume": "none"}


async def test_openapi_python_client(
    stack: Stack, owner: Account, openapi: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    package = tmp_path / "farsteer_api"
    printed = await run(
        BIN / "openapi-python-client", "generate", "--path", openapi, "--output-path", package,
        "--meta", "none", "--fail-on-warning",
    )  # fmt: skip
    assert "warning" not in printed.lower(), printed
    monkeypatch.syspath_prepend(tmp_path)
    models: Any = import_module("farsteer_api.models")
    generated: Any = import_module("farsteer_api")

    def operation(name: str) -> Any:
        return import_module(f"farsteer_api.api.{name}")

    async with generated.Client(base_url=stack.url) as nobody:
        signed_in = await operation("sign_in.authenticate").asyncio(
            client=nobody, body=models.AuthRequest(access_token=OWNER)
        )
    assert signed_in.namespace == "default"
    async with generated.AuthenticatedClient(base_url=stack.url, token=signed_in.token) as client:
        answer = await operation("machines.list_machines").asyncio(client=client, active=True)
        [machine] = answer.machines
        body = models.CreateSession(machine_id=machine.id, directory=stack.directory(), agent="demo")
        created = await operation("sessions.create_session").asyncio(client=client, body=body)
        assert isinstance(created, models.SessionCreated)
        session_id = created.session_id
        accepted = await operation("messages.send_message").asyncio(
            session_id, client=client, body=models.SendMessage(text="hello")
        )
        assert isinstance(accepted, models.MessageAccepted)
        await owner.until(session_id, "idle")
        log = await operation("messages.list_messages").asyncio(session_id, client=client)
        kinds = [type(entry.content) for entry in log.messages]
        assert {models.UserMessage, models.AgentMessage, models.TurnEnd} <= {*kinds}
        done = await operation("sessions.stop_session").asyncio(session_id, client=client)
        assert done.ok is True
        missing = await operation("sessions.get_session").asyncio(machine.id, client=client)
        assert missing.error.code == "not_found"

        # Live events, by the same models.
        event = {"type": "machine-removed", "namespace": "default", "cursor": "e-1", "machineId": machine.id}
        assert models.MachineRemovedEvent.from_dict(event).machine_id == machine.id
