"""Endpoints for the files of a session's directory, its changes, and the directories of a machine. Read only."""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta

from farsteer.core.api import RequestBody
from farsteer.core.api.files import (
    DEFAULT_READ,
    MAX_READ,
    ChangesResponse,
    DirectoriesResponse,
    DirectoryListing,
    FileContent,
    FileDiff,
    FilePath,
)
from farsteer.faces.rest.endpoint import AnyEndpoint, Endpoint, EndpointCall
from farsteer.faces.rest.sessions import MACHINE_ERRORS
from farsteer.hub import Scope

_SESSION = "/api/sessions/{sessionId}"
_Offset = Annotated[int, Meta(ge=0, le=2**53)]


class DirectoryQuery(RequestBody):
    path: FilePath = ""
    offset: _Offset = 0


class FileQuery(RequestBody):
    path: FilePath = ""
    offset: _Offset = 0
    length: Annotated[int, Meta(ge=1, le=MAX_READ)] = DEFAULT_READ


class FileDiffQuery(RequestBody):
    path: FilePath = ""
    old_path: FilePath | None = None


class BrowseQuery(RequestBody):
    path: FilePath | None = None


async def list_directory(call: EndpointCall[None, DirectoryQuery]) -> DirectoryListing:
    return await call.hub.files.list(call.caller, call.id("sessionId"), call.query.path, call.query.offset)


async def read_file(call: EndpointCall[None, FileQuery]) -> FileContent:
    query = call.query
    return await call.hub.files.read(
        call.caller, call.id("sessionId"), query.path, offset=query.offset, length=query.length
    )


async def list_changes(call: EndpointCall[None, None]) -> ChangesResponse:
    return await call.hub.files.changes(call.caller, call.id("sessionId"))


async def read_diff(call: EndpointCall[None, FileDiffQuery]) -> FileDiff:
    return await call.hub.files.diff(
        call.caller, call.id("sessionId"), call.query.path, old_path=call.query.old_path
    )


async def browse_directories(call: EndpointCall[None, BrowseQuery]) -> DirectoriesResponse:
    return await call.hub.files.browse(call.caller, call.id("machineId"), call.query.path)


ENDPOINTS: tuple[AnyEndpoint, ...] = (
    Endpoint(
        method="GET", path="/api/machines/{machineId}/directories", handler=browse_directories, scope=Scope.FILES,
        query=BrowseQuery, response=DirectoriesResponse, errors=MACHINE_ERRORS,
        tag="Files", summary="List directories of a machine, for a new session",
        description="`path` is an absolute path. Without it, the roots of the machine, or the home directory of its "
        "user. Nothing is shown outside of the roots, or in the home of Farsteer.",
    ),
    Endpoint(
        method="GET", path=_SESSION + "/files", handler=list_directory, scope=Scope.FILES,
        query=DirectoryQuery, response=DirectoryListing, errors=MACHINE_ERRORS,
        tag="Files", summary="List a directory of a session",
        description="`path` is below the session's directory; without it, that directory. Send `nextOffset` as "
        "`offset` to get the next entries.",
    ),
    Endpoint(
        method="GET", path=_SESSION + "/file", handler=read_file, scope=Scope.FILES,
        query=FileQuery, response=FileContent, errors=MACHINE_ERRORS,
        tag="Files", summary="Read a file of a session",
        description="`path` is below the session's directory. Returns at most `length` bytes from `offset` on, as "
        "text if they are UTF-8, else as base64. Send `nextOffset` as `offset` to get the next ones.",
    ),
    Endpoint(
        method="GET", path=_SESSION + "/changes", handler=list_changes, scope=Scope.FILES,
        response=ChangesResponse, errors=MACHINE_ERRORS,
        tag="Files", summary="List what has changed in a session's directory",
        description="Against the last commit, staged or not, with files that git does not know. 422 "
        "`not_a_repository` if the directory is in none.",
    ),
    Endpoint(
        method="GET", path=_SESSION + "/diff", handler=read_diff, scope=Scope.FILES,
        query=FileDiffQuery, response=FileDiff, errors=MACHINE_ERRORS,
        tag="Files", summary="Show how a file of a session has changed",
        description="Against the last commit. Give `oldPath` for a file that was renamed. The patch of a file that git "
        "does not know adds all of it.",
    ),
)  # fmt: skip
