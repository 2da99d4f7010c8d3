"""Makes the README of the package from README.md, in which links lead to files of the repository.

Outside the repository they lead nowhere. They become absolute if `[project.urls]` names the `Repository`. Otherwise
links become plain text, and pictures are left out. A plugin that does this (hatch-fancy-pypi-readme) would be one more
requirement of every build.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from hatchling.metadata.plugin.interface import MetadataHookInterface

_LINK = re.compile(r"(?P<picture>!?)\[(?P<text>[^\]]+)\]\((?!https?://|#)(?P<path>[^)\s]+)\)")
_FENCE = re.compile(r"(^```.*?^```$)", re.MULTILINE | re.DOTALL)


class ReadmeHook(MetadataHookInterface):
    def update(self, metadata: dict[str, Any]) -> None:
        text = Path(self.root, "README.md").read_text(encoding="utf-8")
        repository = metadata.get("urls", {}).get("Repository")
        metadata["readme"] = {"content-type": "text/markdown", "text": portable(text, repository)}


def portable(text: str, repository: str | None) -> str:
    """Return Markdown without links that need the repository's files around it. Code stays as it is."""
    parts = _FENCE.split(text)
    parts[::2] = [_LINK.sub(lambda match: _link(match, repository), part) for part in parts[::2]]
    return "".join(parts)


def _link(match: re.Match[str], repository: str | None) -> str:
    if repository is None:
        return "" if match["picture"] else match["text"]
    folder = "raw" if match["picture"] else "blob"
    return f"{match['picture']}[{match['text']}]({repository.rstrip('/')}/{folder}/main/{match['path']})"
