"""docs/deployment.md and deploy/ are true, as far as a machine without root and without a container engine can tell."""

from __future__ import annotations

import asyncio
import configparser
import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable, Generator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path

import httpx
import pytest
import yaml

from farsteer.cli.commands.daemons import _server_parser
from farsteer.core.api import MAX_BODY
from farsteer.faces.events.options import EventLimits
from tests.support.daemons import TOKEN, Daemons
from tests.support.eventually import eventually
from tests.support.ports import free_port

ROOT = Path(__file__).parents[2]
DEPLOY = ROOT / "deploy"
PAGE = (ROOT / "docs" / "deployment.md").read_text()
BLOCKS = re.findall(r"^```sh\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)
UNITS = sorted(DEPLOY.glob("systemd/*/*.service"))
NAME = "farsteer.example.com"
BIN = Path(sys.executable).parent
SECONDS = 60.0

Proxy = Callable[[str, Path, int], AbstractContextManager[str]]


def instructions() -> list[tuple[str, str]]:
    """The instructions of the Dockerfile, with continued lines joined."""
    text = re.sub(r"^#.*\n", "", (DEPLOY / "Dockerfile").read_text(), flags=re.MULTILINE).replace("\\\n", " ")
    return [(line.split()[0], line.partition(" ")[2].strip()) for line in text.splitlines() if line]


def check_hub_options(words: list[str]) -> None:
    """The arguments after `farsteer hub` or `farsteer up` are ones that it takes."""
    _server_parser("hub", "", "").parse_args(words)


def unit(path: Path) -> configparser.SectionProxy:
    parser = configparser.ConfigParser(interpolation=None, strict=False)
    parser.optionxform = str  # pyright: ignore[reportAttributeAccessIssue]
    parser.read(path)
    return parser["Service"]


# The container


def test_the_image_runs_a_hub_as_an_ordinary_user_with_its_home_in_a_volume() -> None:
    stages = instructions()
    last = stages[max(number for number, (name, _) in enumerate(stages) if name == "FROM") :]
    found = dict(last)
    assert found["USER"] == "farsteer"
    assert [name for name, _ in last].index("USER") < [name for name, _ in last].index("ENTRYPOINT")
    assert yaml.safe_load(found["VOLUME"]) == ["/var/lib/farsteer"]
    assert "FARSTEER_HOME=/var/lib/farsteer" in found["ENV"]
    assert yaml.safe_load(found["ENTRYPOINT"]) == ["farsteer"]
    command, *options = yaml.safe_load(found["CMD"])
    assert command == "hub"
    check_hub_options(options)


def test_the_image_has_what_the_build_needs_and_no_secret() -> None:
    text = (DEPLOY / "Dockerfile").read_text()
    assert "--require-hashes" in text
    assert not re.search(
        r"token|secret|password", re.sub(r"^#.*", "", text, flags=re.MULTILINE), re.IGNORECASE
    )
    allowed = (DEPLOY / "Dockerfile.dockerignore").read_text().splitlines()
    assert allowed[0] == "*"
    for name, words in instructions():
        if name == "COPY" and not words.startswith("--from"):
            for source in words.split()[:-1]:
                assert (ROOT / source).exists(), source
                assert f"!{source.rstrip('/')}" in allowed


@pytest.mark.slow
async def test_the_health_check_of_the_image_notices_a_hub_that_does_not_answer(
    tmp_path: Path, free_port: int
) -> None:
    (options,) = (words for name, words in instructions() if name == "HEALTHCHECK")
    program, *arguments = yaml.safe_load(options.partition("CMD ")[2])
    assert program == "python"
    argv = [sys.executable, *(argument.replace(":3006/", f":{free_port}/") for argument in arguments)]

    def healthy() -> bool:
        return subprocess.run(argv, capture_output=True, timeout=SECONDS).returncode == 0

    assert not await asyncio.to_thread(healthy)
    async with Daemons(tmp_path, free_port) as daemons:
        await daemons.hub.wait_for_log("ready at")
        assert await asyncio.to_thread(healthy)


def test_the_compose_file_has_the_hub_behind_the_proxy() -> None:
    compose = yaml.safe_load((DEPLOY / "compose.yaml").read_text())
    hub, caddy = compose["services"]["hub"], compose["services"]["caddy"]
    assert (DEPLOY / hub["build"]["context"] / hub["build"]["dockerfile"]).resolve() == DEPLOY / "Dockerfile"
    command, *options = hub["command"]
    assert command == "hub"
    check_hub_options(options)
    network = compose["networks"]["proxy"]["ipam"]["config"][0]["subnet"]
    assert options[options.index("--trusted-proxy") + 1] == network
    assert "FARSTEER_DOMAIN" in options[options.index("--allowed-host") + 1]
    assert hub["volumes"] == ["home:/var/lib/farsteer"]
    assert "ports" not in hub, "the hub is reached through the proxy only"
    assert hub["networks"] == caddy["networks"] == ["proxy"]
    assert caddy["environment"]["FARSTEER_UPSTREAM"] == "hub:3006"
    assert (DEPLOY / caddy["volumes"][0].split(":")[0]).resolve() == DEPLOY / "Caddyfile"
    used = {volume.split(":")[0] for service in (hub, caddy) for volume in service["volumes"]}
    assert {*compose["volumes"]} == {name for name in used if not name.startswith(".")}


# The units


@pytest.mark.parametrize("path", UNITS, ids=lambda path: f"{path.parent.name}/{path.name}")
def test_a_unit_starts_a_command_that_exists(path: Path) -> None:
    service = unit(path)
    program, command, *options = shlex.split(service["ExecStart"])
    assert program == (
        "/usr/local/bin/farsteer" if path.parent.name == "system" else "%h/.local/bin/farsteer"
    )
    if command == "runner":
        assert {word for word in options if word.startswith("-")} <= {"--hub", "--token-file"}
    else:
        assert command in ("hub", "up")
        check_hub_options(options)
    if command != "hub":
        assert service["Delegate"] == "yes"
        assert service["KillMode"] == "mixed"
        assert service["Environment"].startswith("PATH="), "agents are found by it"
        for name in (
            "ProtectHome",
            "PrivateTmp",
            "RestrictNamespaces",
            "SystemCallFilter",
            "MemoryDenyWriteExecute",
        ):
            assert name not in service, f"{name} breaks agents"
    if path.parent.name == "system":
        assert service["User"] != "root"
        assert service["NoNewPrivileges"] == "yes"


@pytest.mark.slow
def test_systemd_accepts_the_units_of_the_system(tmp_path: Path) -> None:
    if shutil.which("systemd-analyze") is None:
        pytest.skip("this machine has no systemd-analyze")
    for path in UNITS:
        text = path.read_text().replace("/usr/local/bin/farsteer", str(BIN / "farsteer"))
        text = text.replace("%h/.local/bin/farsteer", str(BIN / "farsteer"))
        target = "multi-user.target" if path.parent.name == "system" else "default.target"
        assert f"WantedBy={target}" in text
        copy = tmp_path / f"{path.parent.name}-{path.name}"
        copy.write_text(text)
    argv = ["systemd-analyze", "verify", "--man=no", *map(str, tmp_path.glob("*.service"))]
    done = subprocess.run(argv, capture_output=True, text=True, timeout=SECONDS)
    complaints = [line for line in done.stderr.splitlines() if "farsteer" in line]
    assert complaints == []


# The proxies


def test_the_proxies_are_set_up_as_the_page_says() -> None:
    nginx = (DEPLOY / "nginx.conf").read_text()
    for line in (
        "proxy_set_header Host $http_host;", "proxy_set_header X-Forwarded-For $remote_addr;",
        'proxy_set_header Forwarded "";', "proxy_set_header Upgrade $http_upgrade;", "proxy_http_version 1.1;",
        "proxy_buffering off;",
    ):  # fmt: skip
        assert line in nginx
    caddy = (DEPLOY / "Caddyfile").read_text()
    assert "flush_interval -1" in caddy
    assert "header_up -Forwarded" in caddy
    mib = MAX_BODY // 1024**2
    assert f"client_max_body_size {mib}m;" in nginx
    assert f"max_size {mib}MiB" in caddy
    assert f"bodies of {mib} MiB" in PAGE
    limits = EventLimits()
    assert f"every {max(limits.ping_interval, limits.heartbeat_interval):.0f} seconds" in PAGE


@contextmanager
def nginx(program: str, folder: Path, hub_port: int) -> Generator[str]:
    """deploy/nginx.conf in front of a hub, without TLS. Yields its address."""
    port = free_port()
    site = (DEPLOY / "nginx.conf").read_text().replace("127.0.0.1:3006", f"127.0.0.1:{hub_port}")
    site = re.sub(r"^ *(?:listen \[|ssl_).*\n", "", site, flags=re.MULTILINE)
    site = site.replace("listen 443 ssl;", f"listen 127.0.0.1:{port};")
    kinds = ("client_body", "proxy", "fastcgi", "uwsgi", "scgi")
    folders = "".join(f"{kind}_temp_path {folder / kind};\n" for kind in kinds)
    config = folder / "nginx.conf"
    config.write_text(
        f"daemon off; master_process off; pid {folder / 'pid'}; error_log {folder / 'error'};\n"
        f"events {{}}\nhttp {{ access_log off;\n{folders}{site} }}\n"
    )
    with running([program, "-e", str(folder / "error"), "-c", str(config)], dict(os.environ)):
        yield f"http://127.0.0.1:{port}"


@contextmanager
def caddy(program: str, folder: Path, hub_port: int) -> Generator[str]:
    """deploy/Caddyfile in front of a hub, without TLS. Yields its address."""
    port = free_port()
    config = folder / "Caddyfile"
    config.write_text("{\n\tadmin off\n}\n" + (DEPLOY / "Caddyfile").read_text())
    environment = {
        **os.environ, "HOME": str(folder), "FARSTEER_DOMAIN": f"http://:{port}",
        "FARSTEER_UPSTREAM": f"127.0.0.1:{hub_port}",
    }  # fmt: skip
    with running([program, "run", "--adapter", "caddyfile", "--config", str(config)], environment):
        yield f"http://127.0.0.1:{port}"


@contextmanager
def running(argv: list[str], environment: dict[str, str]) -> Generator[None]:
    process = subprocess.Popen(
        argv, env=environment, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    try:
        yield
    finally:
        process.send_signal(signal.SIGTERM)
        process.wait(SECONDS)


async def answers(url: str) -> None:
    async def healthy() -> bool:
        try:
            async with httpx.AsyncClient() as client:
                return (await client.get(f"{url}/health")).status_code == 200
        except httpx.TransportError:
            return False

    await eventually(healthy, SECONDS)


@pytest.mark.slow
@pytest.mark.parametrize(("name", "proxy"), [("nginx", nginx), ("caddy", caddy)], ids=["nginx", "caddy"])
async def test_a_hub_behind_the_proxy(name: str, proxy: Proxy, tmp_path: Path) -> None:
    """Where the proxy is installed; Debian's packages of both were tried."""
    program = shutil.which(name)
    if program is None:
        pytest.skip(f"this machine has no {name}")
    port = free_port()
    daemons = Daemons(tmp_path, port)
    daemons.hub._options += ("--allowed-host", NAME, "--trusted-proxy", "127.0.0.1")
    async with daemons:
        await daemons.hub.wait_for_log("ready at")
        with proxy(program, tmp_path, port) as url:
            await answers(url)
            runner = daemons.runner(hub=url)
            runner.start()
            await daemons.wait_until_connected()  # a websocket through the proxy
            async with httpx.AsyncClient(base_url=url, headers={"Host": NAME}) as client:
                assert (await client.get("/health")).status_code == 200
                assert (await client.get("/health", headers={"Origin": f"http://{NAME}"})).status_code == 200
                foreign = await client.get("/health", headers={"Origin": "http://other.example.com"})
                assert "origin_not_allowed" in foreign.text
                refused = await client.get("/health", headers={"Host": "other.example.com"})
                assert "host_not_allowed" in refused.text
                token = (await client.post("/api/auth", json={"accessToken": TOKEN})).json()["token"]
                client.headers["Authorization"] = f"Bearer {token}"
                async with client.stream("GET", "/api/events") as stream, asyncio.timeout(SECONDS):
                    assert stream.headers["content-type"].startswith("text/event-stream")
                    session = asyncio.create_task(daemons.start_session())
                    async for line in stream.aiter_lines():
                        if "session-" in line:
                            break
                await daemons.say(await session, "hello")
            await runner.stop()


# The page


@pytest.mark.slow
async def test_the_commands_of_the_page_run(tmp_path: Path, free_port: int) -> None:
    if shutil.which("curl") is None and "CI" not in os.environ:
        pytest.skip("this machine has no curl")
    url = f"http://127.0.0.1:{free_port}"
    health, create, start, machines, backup, restore = (
        block.replace(f"https://{NAME}", url) for block in BLOCKS
    )
    async with Daemons(tmp_path, free_port) as daemons:
        await daemons.hub.wait_for_log("ready at")
        (daemons.hub.home / "token").write_text(TOKEN)
        (daemons.hub.home / "token").chmod(0o600)
        environment = {
            "PATH": f"{BIN}:{os.environ['PATH']}", "HOME": str(tmp_path), "FARSTEER_HOME": str(daemons.hub.home),
            "LANG": "C.UTF-8",
        }  # fmt: skip

        async def run(script: str) -> str:
            done = await asyncio.to_thread(
                subprocess.run,
                ["bash", "-euc", script], env=environment, cwd=tmp_path, capture_output=True, text=True,
                timeout=SECONDS, stdin=subprocess.DEVNULL,
            )  # fmt: skip
            assert done.returncode == 0, done.stderr
            return done.stdout

        assert '"version"' in await run(health)
        assert "build server" in await run(create)
        runner = await asyncio.create_subprocess_exec(
            "bash", "-euc", start.replace("farsteer runner", "exec farsteer runner"), cwd=tmp_path,
            env={**environment, "FARSTEER_HOME": str(tmp_path / "other")}, stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
        )  # fmt: skip
        try:
            machine = await daemons.wait_until_connected()
            assert machine.id[:8] in await run(machines)
            await run(backup)
            await run(restore)
        finally:
            runner.send_signal(signal.SIGTERM)
            await runner.wait()
    assert (tmp_path / "restored" / "hub.db").exists()


def test_the_page_names_only_files_and_options_that_exist() -> None:
    for path in re.findall(r"deploy/[\w./-]*\w", PAGE):
        assert (ROOT / path).exists(), path
    table = PAGE.partition("| option of")[2].partition("What the proxy has to do")[0]
    options = re.findall(r"^\| `(--[\w-]+)", table, re.MULTILINE)
    assert len(options) == 4
    usage = _server_parser("hub", "", "").format_help()
    assert [option for option in options if option not in usage] == []
    for path in (DEPLOY / "nginx.conf", *UNITS):
        assert NAME in path.read_text() or "user" in path.parts
