"""The runner's side of the handshake, for tests that speak the link themselves."""

from __future__ import annotations

import asyncio
from hashlib import sha256

from farsteer.core.capabilities import MachineInfo
from farsteer.link.identity import MachineKey
from farsteer.link.messages import PROTOCOL, TRANSFER_PROTOCOL, Challenge, Hello, Proof, ToHub, ToRunner
from farsteer.link.transfers import UnfinishedTransfers
from farsteer.link.transport import Transport

DEADLINE = 10.0


def key_of(machine_id: str) -> MachineKey:
    """Return the key of a machine. The same id always has the same key."""
    return MachineKey(sha256(machine_id.encode()).digest())


def make_hello(
    machine: MachineInfo, sessions: dict[str, int] | None = None, *, key: MachineKey | None = None
) -> Hello:
    public = (key or key_of(machine.id)).public
    return Hello(machine=machine, sessions=sessions or {}, key=public, protocol=PROTOCOL)


async def shake_hands(
    transport: Transport[ToHub, ToRunner], hello: Hello, key: MachineKey | None = None
) -> ToRunner:
    """Send hello, answer the challenge and return what the hub says in the end."""
    key = key or key_of(hello.machine.id)
    async with asyncio.timeout(DEADLINE):
        await transport.send(hello)
        answer = await transport.receive()
        if isinstance(answer, Challenge):
            signature = key.sign(answer, hello.machine.id, transport.token_digest)
            await transport.send(Proof(signature=signature))
            if answer.protocol >= TRANSFER_PROTOCOL:
                await transport.start_transfers(UnfinishedTransfers(), "hub")
            answer = await transport.receive()
    return answer
