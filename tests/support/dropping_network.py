"""Networks between a runner and its hub that can drop everything, without a word to either end."""

from __future__ import annotations

import asyncio
import os
import shutil
import sys
from asyncio.subprocess import PIPE, Process
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Protocol

from tests.support.eventually import eventually
from tests.support.slow_proxy import SlowProxy, slow_proxy

_NOBODY = "02:00:00:00:00:66"
"""An Ethernet address that no interface has."""


class Unavailable(Exception):
    """This machine, or this user, cannot have such a network."""


class DroppingNetwork(Protocol):
    host: str
    """The address on which the hub listens."""
    prefix: tuple[str, ...]
    """What starts a program on the runner's side."""

    def url(self, port: int) -> str:
        """The URL of the hub on the runner's side."""
        ...

    async def drop(self) -> None: ...

    async def restore(self) -> None: ...


class NamespaceNetwork:
    """A network namespace for the runner, with a cable (veth) to the namespace of the hub.

    While packets are dropped both ends send theirs to an Ethernet address that the other one does not have: whoever
    sends notices nothing, and nothing arrives. This needs no module of the kernel besides veth.
    """

    def __init__(self, namespace: int) -> None:
        """`namespace` is the id of a process in the namespace of the runner."""
        number = os.getpid() % 2**14
        # Of the network for measurements (RFC 2544), which nobody routes; four addresses for each process.
        subnet = f"198.18.{number >> 6}"
        self.host, self._runner = (f"{subnet}.{(number & 63) * 4 + offset}" for offset in (1, 2))
        self._namespace = namespace
        self._inside = ("nsenter", f"--net=/proc/{namespace}/ns/net")
        self._cable = f"fs{os.getpid()}"
        # A runner gives its token to no other machine without TLS, unless it is told to.
        self.prefix = (*self._inside, "env", "FARSTEER_ALLOW_INSECURE=1")

    def url(self, port: int) -> str:
        return f"http://{self.host}:{port}"

    async def connect(self) -> None:
        peer = ("peer", "name", "cable", "netns", str(self._namespace))
        await _run("ip", "link", "add", self._cable, "type", "veth", *peer)
        await _run("ip", "address", "add", f"{self.host}/30", "dev", self._cable)
        await _run("ip", "link", "set", self._cable, "up")
        await _run(*self._inside, "ip", "address", "add", f"{self._runner}/30", "dev", "cable")
        for device in ("lo", "cable"):
            await _run(*self._inside, "ip", "link", "set", device, "up")

    async def drop(self) -> None:
        wrong = ("lladdr", _NOBODY, "nud", "permanent")
        await _run("ip", "neighbour", "replace", self._runner, *wrong, "dev", self._cable)
        await _run(*self._inside, "ip", "neighbour", "replace", self.host, *wrong, "dev", "cable")

    async def restore(self) -> None:
        await _run("ip", "neighbour", "delete", self._runner, "dev", self._cable)
        await _run(*self._inside, "ip", "neighbour", "delete", self.host, "dev", "cable")


class ProxyNetwork:
    """A proxy that stops forwarding. The systems of both ends still get confirmations of what they send, from it."""

    host = "127.0.0.1"
    prefix = ()

    def __init__(self, proxy: SlowProxy) -> None:
        self._proxy = proxy

    def url(self, port: int) -> str:
        assert port == self._proxy.target
        return self._proxy.url

    async def drop(self) -> None:
        self._proxy.hold()

    async def restore(self) -> None:
        self._proxy.release()


@asynccontextmanager
async def namespace_network() -> AsyncGenerator[NamespaceNetwork]:
    """Raises Unavailable, with a reason, if there cannot be one. Nothing of it is left afterwards."""
    if sys.platform != "linux" or os.geteuid() != 0:
        raise Unavailable("only root on Linux can create a network namespace")
    for program in ("ip", "unshare", "nsenter"):
        if shutil.which(program) is None:
            raise Unavailable(f"a network namespace needs the program {program} (iproute2, util-linux)")
    # The namespace has no name: it ends with its last process, and its end of the cable takes the other one along.
    holder = await asyncio.create_subprocess_exec("unshare", "--net", "cat", stdin=PIPE, stderr=PIPE)
    try:
        await eventually(lambda: _is_apart(holder))
        if holder.returncode is not None:
            _, reason = await holder.communicate()
            raise Unavailable(f"no network namespace can be created here: {reason.decode().strip()}")
        network = NamespaceNetwork(holder.pid)
        await network.connect()
        yield network
    finally:
        # The end of its input ends it.
        await holder.communicate(b"")


def _is_apart(holder: Process) -> bool:
    """Whether the process is in a namespace of its own, or has ended."""
    ours, its = Path("/proc/self/ns/net"), Path(f"/proc/{holder.pid}/ns/net")
    try:
        return holder.returncode is not None or ours.readlink() != its.readlink()
    except OSError:
        return False


async def _run(*command: str) -> None:
    process = await asyncio.create_subprocess_exec(*command, stderr=PIPE)
    _, reason = await process.communicate()
    if process.returncode != 0:
        raise Unavailable(f"{' '.join(command)}: {reason.decode().strip()}")


@asynccontextmanager
async def proxy_network(port: int) -> AsyncGenerator[ProxyNetwork]:
    """A network to a hub on a port of this machine."""
    async with slow_proxy(port) as proxy:
        yield ProxyNetwork(proxy)
