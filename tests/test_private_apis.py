"""Undocumented names of uvicorn, websockets, python-socketio and python-engineio.

They are used in four modules only, and they are still what these modules expect. After an upgrade of one of the
libraries this is the place that fails.
"""

import ast
import asyncio
import inspect
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import engineio
import pytest
import socketio
import uvicorn
from engineio import packet as engineio_packet
from engineio.async_drivers import asgi
from engineio.async_socket import AsyncSocket
from socketio import packet as socketio_packet
from uvicorn.protocols.http.flow_control import FlowControl
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol, RequestResponseCycle
from uvicorn.protocols.websockets.websockets_sansio_impl import WebSocketsSansIOProtocol
from uvicorn.server import ServerState
from websockets.asyncio.connection import Connection
from websockets.server import ServerProtocol

from farsteer.faces.events import socketio_compat
from farsteer.link import websocket
from farsteer.server import uvicorn_protocols

SRC = Path(__file__).parents[1] / "src" / "farsteer"
FENCED = {
    Path("server/embedded_server.py"),
    Path("server/uvicorn_protocols.py"),
    Path("faces/events/socketio_compat.py"),
    Path("link/websocket.py"),
}
LIBRARIES = {"uvicorn", "websockets", "socketio", "engineio"}
FENCED_NAMES = ("farsteer.server.uvicorn_protocols", "farsteer.faces.events.socketio_compat")
PUBLIC = {
    "uvicorn",
    "uvicorn.Config",
    "socketio.exceptions",
    "websockets.asyncio.client",
    "websockets.exceptions",
}
"""What other modules may import of the libraries: these names, and everything in these modules but uvicorn."""

# fmt: off
OVERRIDDEN: dict[tuple[Any, str], str] = {
    (HttpToolsProtocol, "connection_lost"): "exc",
    (HttpToolsProtocol, "connection_made"): "transport",
    (HttpToolsProtocol, "data_received"): "data",
    (HttpToolsProtocol, "handle_websocket_upgrade"): "",
    (HttpToolsProtocol, "on_message_complete"): "",
    (HttpToolsProtocol, "on_response_complete"): "",
    (HttpToolsProtocol, "timeout_keep_alive_handler"): "",
    (HttpToolsProtocol, "on_message_begin"): "",
    (HttpToolsProtocol, "pause_writing"): "",
    (HttpToolsProtocol, "resume_writing"): "",
    (HttpToolsProtocol, "shutdown"): "",
    (WebSocketsSansIOProtocol, "connection_lost"): "exc",
    (WebSocketsSansIOProtocol, "data_received"): "data",
    (WebSocketsSansIOProtocol, "handle_cont"): "event",
    (WebSocketsSansIOProtocol, "handle_parser_exception"): "",
    (WebSocketsSansIOProtocol, "handle_ping"): "",
    (WebSocketsSansIOProtocol, "receive"): "",
    (WebSocketsSansIOProtocol, "send_receive_event_to_app"): "",
    (WebSocketsSansIOProtocol, "pause_writing"): "",
    (WebSocketsSansIOProtocol, "resume_writing"): "",
    (WebSocketsSansIOProtocol, "run_asgi"): "",
    (WebSocketsSansIOProtocol, "shutdown"): "",
    (Connection, "data_received"): "data",
    (asgi.WebSocket, "__call__"): "environ",
    (asgi.WebSocket, "wait"): "",
    (engineio.AsyncServer, "create_queue"): "args, kwargs",
    (engineio.AsyncServer, "disconnect"): "sid",
    (engineio.AsyncServer, "start_background_task"): "target, args, kwargs",
    (socketio.AsyncManager, "connect"): "sid, namespace",
    (socketio.AsyncServer, "_engineio_server_class"): "",
    (socketio.AsyncServer, "_handle_connect"): "eio_sid, namespace, data",
    (socketio.AsyncServer, "_handle_eio_connect"): "eio_sid, environ",
    (socketio.AsyncServer, "_handle_eio_disconnect"): "eio_sid, reason",
    (socketio.AsyncServer, "_handle_eio_message"): "eio_sid, data",
    (socketio_packet.Packet, "decode"): "encoded_packet",
}
"""Methods that our subclasses replace, with their parameters."""
USED: dict[tuple[Any, str], str] = {
    (HttpToolsProtocol, "__init__"): "config, server_state, app_state, _loop",
    (HttpToolsProtocol, "_should_upgrade"): "",
    (HttpToolsProtocol, "_unset_keepalive_if_required"): "",
    (WebSocketsSansIOProtocol, "__init__"): "config, server_state, app_state, _loop",
    (ServerProtocol, "data_to_send"): "",
    (ServerProtocol, "send_close"): "code, reason",
    (ServerProtocol, "send_ping"): "data",
    (uvicorn.Config, "load"): "",
    (uvicorn.Server, "on_tick"): "counter",
    (uvicorn.Server, "shutdown"): "sockets",
    (uvicorn.Server, "startup"): "sockets",
    (AsyncSocket, "close"): "wait, abort, reason",
    (AsyncSocket, "poll"): "",
    (asgi.WebSocket, "__init__"): "handler, server",
    (asgi, "translate_request"): "scope, receive, send",
    (engineio.AsyncServer, "shutdown"): "",
    (engineio_packet.Packet, "__init__"): "packet_type, data, encoded_packet",
    (socketio.AsyncManager, "basic_disconnect"): "sid, namespace, kwargs",
    (socketio.AsyncManager, "eio_sid_from_sid"): "sid, namespace",
    (socketio.AsyncManager, "sid_from_eio_sid"): "eio_sid, namespace",
    (socketio.AsyncServer, "_send_packet"): "eio_sid, pkt",
    (socketio_packet.Packet, "__init__"): "packet_type, data, namespace, id, binary, encoded_packet",
}
"""Functions that we call or whose behaviour we rely on, with their parameters."""
# fmt: on


def identify(item: tuple[Any, str]) -> str:
    owner, name = item
    return f"{getattr(owner, '__module__', '')}.{owner.__name__}.{name}"


def overrides(module: Any) -> Iterator[tuple[Any, str]]:
    """Each library class and the name of a method of it, other than its constructor, that the module replaces."""
    for _, cls in inspect.getmembers(module, inspect.isclass):
        if cls.__module__ != module.__name__:
            continue
        inherited = [base for base in cls.__mro__ if base.__module__.partition(".")[0] in LIBRARIES]
        ours = {name for base in cls.__mro__ if base.__module__ == module.__name__ for name in vars(base)}
        for name in ours - {"__init__"}:
            owner = next((base for base in inherited if inspect.isfunction(vars(base).get(name))), None)
            if owner is not None:
                yield owner, name


def test_every_overridden_method_is_listed() -> None:
    found = {*overrides(uvicorn_protocols), *overrides(socketio_compat), *overrides(websocket)}
    assert sorted(map(identify, found)) == sorted(map(identify, OVERRIDDEN))


@pytest.mark.parametrize("item", [*OVERRIDDEN, *USED], ids=identify)
def test_a_function_of_a_library_has_the_expected_parameters(item: tuple[Any, str]) -> None:
    owner, name = item
    function = getattr(owner, name, None)
    assert function is not None, f"{owner.__name__} has no {name} any more"
    found = [parameter for parameter in inspect.signature(function).parameters if parameter != "self"]
    assert ", ".join(found) == {**OVERRIDDEN, **USED}[item]


async def test_the_protocols_of_uvicorn_have_the_expected_attributes() -> None:
    async def app(scope: object, receive: object, send: object) -> None: ...

    config = uvicorn.Config(app, lifespan="off", log_config=None, ws_per_message_deflate=False)
    config.load()
    assert config.lifespan_class(config)
    server = uvicorn.Server(config)
    assert server.server_state.tasks == set()
    http = HttpToolsProtocol(config, ServerState(), {})
    assert {"cycle", "flow", "headers", "loop", "parser", "scope", "transport"} <= vars(http).keys()
    cycle = {*RequestResponseCycle.__init__.__code__.co_names}
    assert {"disconnected", "message_event", "response_complete", "response_started"} <= cycle
    assert {"default_headers", "keep_alive", "on_response", "scope"} <= cycle
    assert {"drain", "write_paused"} <= {*dir(FlowControl), *FlowControl.__init__.__code__.co_names}
    server_end = WebSocketsSansIOProtocol(config, ServerState(), {})
    assert {"close_sent", "conn", "disconnected", "loop", "transport"} <= vars(server_end).keys()
    assert {"curr_msg_data_type", "frames", "handshake_initiated", "queue", "read_paused"} <= vars(
        server_end
    ).keys()
    assert {"extensions", "max_message_size"} <= vars(server_end.conn).keys()
    assert (server_end.close_sent, server_end.disconnected, server_end.conn.extensions) == (False, False, [])


async def test_the_objects_of_socketio_and_engineio_have_the_expected_attributes() -> None:
    server = socketio.AsyncServer(async_mode="asgi")
    assert {"eio", "environ", "manager"} <= vars(server).keys()
    assert {"_async", "sockets"} <= vars(server.eio).keys()
    assert asgi._async.keys() == {"asyncio", "translate_request", "make_response", "websocket"}
    client = AsyncSocket(server.eio, "sid")
    assert {"closed", "connected", "queue", "sid", "upgraded", "upgrading"} <= vars(client).keys()
    assert isinstance(client.queue, asyncio.Queue)
    types = (socketio_packet.CONNECT, socketio_packet.DISCONNECT, socketio_packet.EVENT, socketio_packet.ACK)
    assert (*types, socketio_packet.CONNECT_ERROR) == (0, 1, 2, 3, 4)
    assert (engineio_packet.CLOSE, engineio_packet.MESSAGE) == (1, 4)


def imports(tree: ast.Module) -> Iterator[tuple[int, str, str]]:
    """The line, the dotted name and the local name of each import."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for alias in node.names:
                yield node.lineno, alias.name, alias.asname or alias.name.partition(".")[0]
        elif isinstance(node, ast.ImportFrom) and node.module:
            for alias in node.names:
                yield node.lineno, f"{node.module}.{alias.name}", alias.asname or alias.name


def violations(path: Path, tree: ast.Module) -> Iterator[str]:
    """What a module outside the fence must not do."""
    names: set[str] = set()
    """Local names that come from the libraries, or from the modules whose classes inherit from the libraries."""
    for line, name, local in imports(tree):
        if name.partition(".")[0] in LIBRARIES:
            names.add(local)
            if name not in PUBLIC and name.rpartition(".")[0] not in PUBLIC - {"uvicorn"}:
                yield f"{path}:{line}: imports {name}"
        elif name.startswith(FENCED_NAMES):
            names.add(local)
    for node in ast.walk(tree):
        if isinstance(node, ast.ClassDef):
            for base in node.bases:
                root = base
                while isinstance(root, ast.Attribute | ast.Subscript):
                    root = root.value
                if isinstance(root, ast.Name) and root.id in names:
                    yield f"{path}:{node.lineno}: class {node.name} inherits from a library"
        elif names and isinstance(node, ast.Attribute) and is_private(node):
            yield f"{path}:{node.lineno}: uses {ast.unparse(node)}"


def is_private(node: ast.Attribute) -> bool:
    """Whether it is a private attribute of another object than `self`."""
    is_own = isinstance(node.value, ast.Name) and node.value.id in {"self", "cls"}
    return node.attr.startswith("_") and not node.attr.endswith("__") and not is_own


def test_only_four_modules_use_what_the_libraries_do_not_document() -> None:
    modules = {path.relative_to(SRC): path for path in SRC.rglob("*.py")}
    assert modules.keys() >= FENCED
    found = [
        violation
        for name, path in sorted(modules.items())
        if name not in FENCED
        for violation in violations(name, ast.parse(path.read_bytes()))
    ]
    assert not found, "\n" + "\n".join(found)


@pytest.mark.parametrize(
    ("source", "allowed"),
    [
        ("import uvicorn", True),
        ("from uvicorn import Config", True),
        ("from socketio import exceptions", True),
        ("from websockets.asyncio.client import connect", True),
        ("import engineio", False),
        ("import socketio", False),
        ("from engineio.packet import Packet", False),
        ("from uvicorn import protocols", False),
        ("from uvicorn.protocols.utils import is_ssl", False),
        ("from uvicorn.server import ServerState", False),
        ("from websockets.protocol import Protocol", False),
        ("import uvicorn\nclass Server(uvicorn.Server): ...", False),
        ("import uvicorn\nuvicorn.Server(config)._log_started_message([])", False),
        ("import uvicorn\nself._server = uvicorn.Server(config)", True),
        ("import uvicorn\nself._server._serve()", False),
        ("from farsteer.faces.events.socketio_compat import SocketIOServer\nserver._send_packet()", False),
        (
            "from farsteer.faces.events.socketio_compat import EngineIOServer\nclass X(EngineIOServer): ...",
            False,
        ),
        ("class Store:\n    def close(self): other._rows.clear()", True),
    ],
)
def test_the_check_sees(source: str, allowed: bool) -> None:
    assert (not [*violations(Path("x.py"), ast.parse(source))]) is allowed
