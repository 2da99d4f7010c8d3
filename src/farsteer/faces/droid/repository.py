"""The git repository a directory is in, as far as its files say it; no git is run."""

from __future__ import annotations

import re
from pathlib import Path

from farsteer.core.wire import WireStruct

_REMOTE = re.compile(r'\[remote "origin"\][^\[]*?\n\s*url\s*=\s*(?P<url>\S+)')
_PLACE = re.compile(r"[:/](?P<owner>[^/:]+)/(?P<name>[^/]+?)(?:\.git)?/?$")


class Repository(WireStruct):
    repo_name: str
    owner: str | None = None


def repository_of(directory: str) -> Repository | None:
    here = Path(directory)
    for folder in (here, *here.parents):
        if (folder / ".git").exists():
            return _remote(folder / ".git" / "config") or Repository(repo_name=folder.name)
    return None


def _remote(config: Path) -> Repository | None:
    try:
        text = config.read_text(errors="replace")
    except OSError:
        return None
    remote = _REMOTE.search(text)
    place = _PLACE.search(remote["url"]) if remote else None
    return Repository(repo_name=place["name"], owner=place["owner"]) if place else None
