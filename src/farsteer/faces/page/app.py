"""Serves the page: `/`, its scripts and styles. It needs no token; everything that it asks the hub for does."""

from __future__ import annotations

from functools import cache
from importlib import resources
from importlib.resources.abc import Traversable

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


class PageApp:
    """An ASGI application with the files in `folder`. Any other path is answered with 404."""

    def __init__(self, folder: Traversable | None = None) -> None:
        self._folder = folder or resources.files("farsteer.faces.page").joinpath("built")
        self._read = cache(self._read_file)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            response = self._respond(scope)
        except FarsteerError as error:
            response = error_response(error)
        await response(scope, receive, send)

    def _respond(self, scope: Scope) -> Response:
        parts = self._parts(scope["path"])
        found = None if parts is None else self._read(parts)
        if parts is None or (found is None and parts != ("index.html",)):
            raise NotFound("no such address")
        if scope["method"] not in ("GET", "HEAD"):
            raise MethodNotAllowed(f"{scope['method']} is not allowed here", allow=["GET", "HEAD"])
        if found is None:
            return make_response(NOT_BUILT, 200, {"content-type": "text/plain; charset=utf-8"})
        plain, packed = found
        headers = {
            "content-type": _MEDIA_TYPES[parts[-1].rpartition(".")[2]],
            "cache-control": _IMMUTABLE if parts[0] == _ASSETS else "no-cache",
            "content-security-policy": CSP,
            "cross-origin-opener-policy": "same-origin",
            "vary": "accept-encoding",
        }
        body = plain
        if packed is not None and "gzip" in Headers(scope=scope).get("accept-encoding", ""):
            headers["content-encoding"] = "gzip"
            body = packed
        if scope["method"] == "HEAD":
            headers["content-length"] = str(len(body))
            body = b""
        return make_response(body, 200, headers)

    @staticmethod
    def _parts(path: str) -> tuple[str, ...] | None:
        """Return the file of a path, or None if the page has no file with such a name."""
        if path == "/":
            return ("index.html",)
        parts = tuple(path.split("/")[1:])
        directory, name = parts[:-1], parts[-1]
        known = directory == (_ASSETS,) or parts == ("favicon.svg",)
        return parts if known and name.rpartition(".")[2] in _MEDIA_TYPES else None

    def _read_file(self, parts: tuple[str, ...]) -> tuple[bytes, bytes | None] | None:
        """Return the content of a file as it is and compressed, or None if there is no such file."""
        file = self._folder.joinpath(*parts)
        if not file.is_file():
            return None
        packed = self._folder.joinpath(*parts[:-1], f"{parts[-1]}.gz")
        return file.read_bytes(), packed.read_bytes() if packed.is_file() else None
