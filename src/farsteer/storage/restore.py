"""Putting the content of a backup into a home directory.

Everything is unpacked beside the home's files and checked before any of them is touched. Then the home changes in two
phases, each of which can be continued after a kill: what is there is moved aside (`.restore-moving`), then what was
unpacked takes its place (`.restore-placing`). Between the phases the directory with the unpacked files is renamed. No
hub and no runner starts meanwhile (`HomeLock`); the next `farsteer restore` finishes it.
"""

from __future__ import annotations

import os
import shutil
import sqlite3
import tarfile
from collections.abc import Mapping
from contextlib import ExitStack, closing
from pathlib import Path, PurePosixPath
from typing import IO

from msgspec import DecodeError, Struct

from farsteer.core.errors import BadRequest, Conflict
from farsteer.core.text import clean_line
from farsteer.core.wire import decode
from farsteer.storage import migrations
from farsteer.storage.backup import (
    AGENTS,
    DATABASES,
    FILES,
    FORMAT,
    MANIFEST,
    HashingReader,
    Manifest,
    Member,
    Progress,
    check_database,
)
from farsteer.storage.home import UNFINISHED_RESTORE, HomeLock, prepare_home, sync_directory

MOVING, PLACING = UNFINISHED_RESTORE
_UNPACKING = ".restore-unpacking"
_REPLACED = "replaced-"
_LOCKS = ("hub", "runner")
_CHUNK = 1024 * 1024
_MAX_MANIFEST = 64 * 1024 * 1024
_MAX_DEPTH = 32


class Restored(Struct, frozen=True):
    contents: list[Member]
    replaced: Path | None
    """Where the files of before are now."""
    finished: bool
    """This was the rest of a restore that had been interrupted. The given archive was not read."""


def restore_backup(
    home: Path,
    archive: Path,
    *,
    schemas: Mapping[str, int],
    force: bool = False,
    progress: Progress = lambda what, done, total: None,
) -> Restored:
    """Put the content of a backup into `home`.

    Args:
        home: The home directory. Created if it does not exist.
        archive: A file that `create_backup` wrote.
        schemas: By name of a database, the newest schema that this version can open.
        force: Move the files of a home that is not empty aside.
        progress: Called while something takes long.

    Raises:
        Conflict: A hub or a runner uses the home, it is not empty, or a newer version wrote the backup.
        BadRequest: The archive is not a whole backup. Nothing was changed.
        Unavailable: A database in it is damaged. Nothing was changed.
    """
    prepare_home(home)
    with ExitStack() as opened:
        for name in _LOCKS:
            opened.callback(HomeLock(home, name, restores=True).release)
        if any((home / name).exists() for name in UNFINISHED_RESTORE):
            return Restored([], _finish(home), finished=True)
        if not force and _own_files(home):
            raise Conflict(
                f"{home} is not empty: choose an empty one with --home, or keep its files aside with --force"
            )
        shutil.rmtree(home / _UNPACKING, ignore_errors=True)
        unpacked = home / _UNPACKING
        unpacked.mkdir(mode=0o700)
        try:
            members = _unpack(archive, unpacked, progress)
            _check_databases(unpacked, schemas, progress)
            _sync_tree(unpacked)
        except BaseException:
            shutil.rmtree(unpacked, ignore_errors=True)
            raise
        unpacked.rename(home / MOVING)
        sync_directory(home)
        return Restored(members, _finish(home), finished=False)


# -- unpacking


def _unpack(archive: Path, target: Path, progress: Progress) -> list[Member]:
    """Unpack the members that a backup may have, and nothing else. Returns what the manifest names."""
    try:
        size = archive.stat().st_size
        free = shutil.disk_usage(target).free
        if size > free:
            raise BadRequest(
                f"{archive} has {size} bytes, and the disk of {target.parent} has only {free} left"
            )
        with tarfile.open(archive, "r:") as tar:
            return _unpack_members(tar, target, progress)
    except (tarfile.TarError, EOFError) as error:
        raise BadRequest(f"{archive} is not a backup: {clean_line(str(error))}") from error
    except FileNotFoundError as error:
        raise BadRequest(f"there is no file {archive}") from error


def _unpack_members(tar: tarfile.TarFile, target: Path, progress: Progress) -> list[Member]:
    found: dict[str, Member] = {}
    manifest: Manifest | None = None
    for info in tar:
        content = tar.extractfile(info) if info.type == tarfile.REGTYPE else None
        if content is None or manifest is not None:
            raise BadRequest(f"this is not a backup: {clean_line(info.name, 200)!r} does not belong in one")
        with content:
            if info.name == MANIFEST:
                manifest = _read_manifest(content, info.size)
                continue
            # Raises for whatever would be outside of the directory, on top of our own list of names.
            tarfile.data_filter(info, str(target))
            if not _is_allowed(info.name) or info.name in found:
                raise BadRequest(
                    f"this is not a backup: {clean_line(info.name, 200)!r} does not belong in one"
                )
            found[info.name] = _unpack_file(info.name, info.size, content, target, progress)
    if manifest is None:
        raise BadRequest("this is not a whole backup: it ends before its manifest")
    if manifest.format > FORMAT:
        raise Conflict(
            f"this backup was made by Farsteer {clean_line(manifest.version, 50)}: use that version"
        )
    for member in manifest.files:
        if found.get(member.name) != member:
            raise BadRequest(f"this backup is damaged: {clean_line(member.name, 200)!r} is not as it was")
    if len(found) != len(manifest.files):
        raise BadRequest("this backup is damaged: it has files that its manifest does not name")
    return manifest.files


def _read_manifest(content: IO[bytes], size: int) -> Manifest:
    if size > _MAX_MANIFEST:
        raise BadRequest("this is not a backup: its manifest is too large")
    try:
        return decode(content.read(), Manifest)
    except DecodeError as error:
        raise BadRequest(f"this is not a backup: its manifest cannot be read: {error}") from None


def _is_allowed(name: str) -> bool:
    if name in DATABASES or name in FILES:
        return True
    parts = PurePosixPath(name).parts
    return (
        1 < len(parts) <= _MAX_DEPTH
        and parts[0] == AGENTS
        and ".." not in parts
        and "/".join(parts) == name
        and "\0" not in name
    )


def _unpack_file(name: str, size: int, content: IO[bytes], target: Path, progress: Progress) -> Member:
    path = target / name
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    reader = HashingReader(content, lambda done: progress(f"unpacking {name}", done, size))
    file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    with open(file, "wb") as stream:
        shutil.copyfileobj(reader, stream, _CHUNK)
        written = stream.tell()
        stream.flush()
        os.fsync(file)
    return Member(name, written, reader.digest)


def _check_databases(directory: Path, schemas: Mapping[str, int], progress: Progress) -> None:
    for name in DATABASES:
        if not (directory / name).exists():
            continue
        progress(f"checking {name}", 0, 1)
        with closing(sqlite3.connect(f"file:{directory / name}?mode=ro", uri=True)) as db:
            check_database(db, name)
            schema = migrations.version(db)
        if schema > schemas.get(name, schema):
            raise Conflict(
                f"{name} of this backup has schema {schema}, but this version of Farsteer supports schemas up to"
                f" {schemas[name]}: restore it with the newer version that made it"
            )


def _sync_tree(directory: Path) -> None:
    for parent, _, _ in os.walk(directory):
        sync_directory(Path(parent))


# -- changing the home


def _own_files(home: Path) -> list[Path]:
    """Return what a restore replaces: everything but the locks and what earlier restores moved aside."""
    kept = {f"{name}.lock" for name in _LOCKS} | {_UNPACKING, MOVING, PLACING}
    return sorted(
        path for path in home.iterdir() if path.name not in kept and not path.name.startswith(_REPLACED)
    )


def _finish(home: Path) -> Path | None:
    """Do what is left to do after the files were unpacked and checked. Returns where the replaced files are."""
    moving, placing = home / MOVING, home / PLACING
    replaced: Path | None = None
    if moving.exists():
        left = _own_files(home)
        if left:
            # The same name if this was begun before: moving files does not change the time.
            replaced = home / f"{_REPLACED}{moving.stat().st_mtime_ns}"
            replaced.mkdir(mode=0o700, exist_ok=True)
            for path in left:
                path.rename(replaced / path.name)
            sync_directory(replaced)
        sync_directory(home)
        moving.rename(placing)
    sync_directory(home)
    for path in sorted(placing.iterdir()):
        path.rename(home / path.name)
    sync_directory(home)
    placing.rmdir()
    sync_directory(home)
    return replaced
