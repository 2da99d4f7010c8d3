"""An argument parser that names the nearest real option when it refuses one."""

from __future__ import annotations

import argparse
import re
from difflib import get_close_matches
from typing import NoReturn

_OPTION_LINE = re.compile(r"^  (-.*?)(?:  |$)", re.MULTILINE)
_OPTION = re.compile(r"(?<![\w-])--?[a-z][\w-]*")
_UNKNOWN = "unrecognized arguments: "


class CommandParser(argparse.ArgumentParser):
    """The parser of one command of `farsteer`."""

    def error(self, message: str) -> NoReturn:
        if message.startswith(_UNKNOWN):
            message += self._suggestion(message.removeprefix(_UNKNOWN).split())
        super().error(message)

    def _suggestion(self, words: list[str]) -> str:
        unknown = next((word.partition("=")[0] for word in words if word.startswith("-")), None)
        if unknown is None:
            return "; quote a text that has several words"
        known = {
            option: None
            for line in _OPTION_LINE.findall(self.format_help())
            for option in _OPTION.findall(line)
        }
        similar = get_close_matches(unknown, known, n=1, cutoff=0.5)
        if similar:
            return f"; did you mean {similar[0]}?"
        return f"; `{self.prog} --help` lists the options"
