"""Serves the page: `/`, its scripts and styles. It needs no token; everything that it asks the hub for does."""

from __future__ import annotations

from importlib import resources
from importlib.resources.abc import Traversable
from typing import NamedTuple

from starlette.datastructures import Headers
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from farsteer.core.errors import FarsteerError, MethodNotAllowed, NotFound
from farsteer.server.responses import error_response, make_response

CSP = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data: blob:; font-src 'self'; "
    "connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'; "
    "require-trusted-types-for 'script'; trusted-types dompurify"
)
"""What DOMPurify has cleaned is the only HTML that the page writes (`trusted-types`)."""
NOT_BUILT = b"""\
This hub runs, but it was installed without its page.

From a clone, `make setup` builds the page. Or install Farsteer again on a machine that can reach the npm registry.
Everything else works: farsteer --help, and the API at /docs.
"""

_ASSETS = "assets"
_MEDIA_TYPES = {
    "css": "text/css; charset=utf-8",
    "html": "text/html; charset=utf-8",
    "js": "text/javascript; charset=utf-8",
    "svg": "image/svg+xml",
}
_IMMUTABLE = "public, max-age=31536000, immutable"


class _File(NamedTuple):
    media_type: str
    cache_control: str
    plain: bytes
    packed: bytes | None
    """The same, compressed."""


class PageApp:
    """An ASGI application with the files in `folder`. Any other path is answered with 404."""

    def __init__(self, folder: Traversable | None = None) -> None:
        self._folder = folder or resources.files("farsteer.faces.page").joinpath("built")
        self._files: dict[str, _File] = {}
        """By path. Read with the first request, so that no request names a file of the disk."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            response = self._respond(scope)
        except FarsteerError as error:
            response = error_response(error)
        await response(scope, receive, send)

    def _respond(self, scope: Scope) -> Response:
        self._files = self._files or _read_files(self._folder)
        file = self._files.get(scope["path"])
        if file is None and scope["path"] != "/":
            raise NotFound("no such address")
        if scope["method"] not in ("GET", "HEAD"):
            raise MethodNotAllowed(f"{scope['method']} is not allowed here", allow=["GET", "HEAD"])
        if file is None:
            return make_response(NOT_BUILT, 200, {"content-type": "text/plain; charset=utf-8"})
        headers = {
            "content-type": file.media_type,
            "cache-control": file.cache_control,
            "content-security-policy": CSP,
            "cross-origin-opener-policy": "same-origin",
            "vary": "accept-encoding",
        }
        body = file.plain
        if file.packed is not None and "gzip" in Headers(scope=scope).get("accept-encoding", ""):
            headers["content-encoding"] = "gzip"
            body = file.packed
        if scope["method"] == "HEAD":
            headers["content-length"] = str(len(body))
            body = b""
        return make_response(body, 200, headers)


def _read_files(folder: Traversable) -> dict[str, _File]:
    """Return what browsers get, by its path. Nothing if the page was not built."""
    assets = folder.joinpath(_ASSETS)
    if not assets.is_dir():
        return {}
    files = {
        f"/{_ASSETS}/{file.name}": _read_file(assets, file.name, _IMMUTABLE)
        for file in assets.iterdir()
        if file.name.rpartition(".")[2] in _MEDIA_TYPES
    }
    for path, name in (("/", "index.html"), ("/favicon.svg", "favicon.svg")):
        if folder.joinpath(name).is_file():
            files[path] = _read_file(folder, name, "no-cache")
    return files


def _read_file(folder: Traversable, name: str, cache_control: str) -> _File:
    packed = folder.joinpath(f"{name}.gz")
    return _File(
        _MEDIA_TYPES[name.rpartition(".")[2]],
        cache_control,
        folder.joinpath(name).read_bytes(),
        packed.read_bytes() if packed.is_file() else None,
    )
