"""Servers of tools: what is secret of them is in no log and in no hub."""

from __future__ import annotations

import pytest

from farsteer.core.api import CreateSession, NewMcpServer
from farsteer.core.mcp import McpServer, McpTransport, find_fault, restore_secrets
from farsteer.core.session import SessionSpec

WHOLE = McpServer(name="files", command="/bin/server", args=("s3cret",), env={"KEY": "s3cret"})
WEB = McpServer(
    name="web", type=McpTransport.HTTP, url="https://mcp.example/s3cret", headers={"Authorization": "s3cret"}
)
SPEC = SessionSpec(id="s", machine_id="m", directory="/", mcp_servers=(WHOLE, WEB))


def test_nothing_secret_is_shown_when_it_is_printed() -> None:
    given = NewMcpServer(name="files", command="/bin/server", env={"KEY": "s3cret"})
    shown = repr(SPEC) + repr(CreateSession(machine_id="m", directory="/", mcp_servers=[given]))
    assert "s3cret" not in shown
    assert "files" in shown


def test_the_bare_ones_have_a_name_and_nothing_else_and_are_completed_where_they_are_known() -> None:
    bare = SPEC.without_secrets.mcp_servers
    assert bare == (McpServer(name="files"), McpServer(name="web", type=McpTransport.HTTP))
    assert restore_secrets(bare, (WEB, WHOLE)) == (WHOLE, WEB)
    assert restore_secrets(bare, (WEB,)) == (WEB,)


@pytest.mark.parametrize(
    "servers",
    [
        (WHOLE, WHOLE),
        (McpServer(name="x"),),
        (McpServer(name="x", type=McpTransport.SSE, command="/bin/x"),),
    ],
)
def test_what_cannot_be_used_is_named(servers: tuple[McpServer, ...]) -> None:
    assert find_fault(servers) is not None
    assert find_fault((WHOLE, WEB)) is None
