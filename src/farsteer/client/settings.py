"""The settings of the commands and the SDK: one table of their names, and where a value is looked for.

A value is the first of: what the caller gave (a flag), an environment variable, `config.toml` in the home directory,
the default. The owner's settings of a hub and a runner are not here: they are in `hub.toml` and `runner.toml`.
"""

from __future__ import annotations

import errno
import os
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal

import msgspec

from farsteer.core.errors import BadRequest

LOG_LEVELS = ("debug", "info", "warning", "error")
LogLevel = Literal["debug", "info", "warning", "error"]
Value = str | int | bool | tuple[str, ...] | None


class ConfigFile(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """`config.toml` in the home directory. A setting that is None is not in it."""

    hub: str | None = None
    allow_insecure: bool | None = None
    log_level: LogLevel | None = None
    host: str | None = None
    port: Annotated[int, msgspec.Meta(ge=0, le=65535)] | None = None
    allowed_host: tuple[str, ...] | None = None
    allowed_origin: tuple[str, ...] | None = None


@dataclass(frozen=True, slots=True)
class Setting:
    name: str
    """Its name in `config.toml`, if it can be there."""
    help: str
    flag: str | None = None
    variables: tuple[str, ...] = ()
    """Environment variables; the first one that is set counts."""
    default: Value = None
    """None: it depends, as `help` says, or there is none."""
    secret: bool = False
    """Never shown, and not in `config.toml`."""

    @property
    def in_file(self) -> bool:
        return self.name in ConfigFile.__struct_fields__


SETTINGS = (
    Setting(
        "home", "directory of the data and the access token", "--home", ("FARSTEER_HOME",), "~/.farsteer"
    ),
    Setting(
        "hub",
        "hub to use; without one, the hub that runs on the home directory, else the hub of `farsteer login`, else "
        "http://127.0.0.1:3006",
        "--hub",
        ("FARSTEER_HUB",),
    ),
    Setting(
        "token",
        "access token of the hub; without one, that of `farsteer login` for this hub, or the file `token` of the home "
        "directory if the hub runs on it",
        variables=("CLI_API_TOKEN",),
        secret=True,
    ),
    Setting(
        "allow_insecure",
        "1 allows http without encryption to another machine",
        variables=("FARSTEER_ALLOW_INSECURE",),
        default=False,
    ),
    Setting(
        "log_level",
        "what is logged to stderr: debug, info, warning or error; without one, info for up, hub and runner, warning "
        "for acp, error for exec",
        "--log-level",
        ("FARSTEER_LOG_LEVEL",),
    ),
    Setting(
        "debug",
        "1 prints the traceback of an error, and logs everything unless there is a log level",
        variables=("FARSTEER_DEBUG",),
        default=False,
    ),
    Setting("no_color", "any value prints without colours", variables=("NO_COLOR",)),
    Setting("host", "address that up and hub listen on", "--host", default="127.0.0.1"),
    Setting("port", "port that up and hub listen on, 0 for any free one", "--port", default=3006),
    Setting(
        "allowed_host",
        "host name that clients may use besides --host and localhost, such as that of a proxy; may be repeated",
        "--allowed-host",
        default=(),
    ),
    Setting(
        "allowed_origin",
        "origin (https://name) of a web page that may call the hub; may be repeated",
        "--allowed-origin",
        default=(),
    ),
    Setting("claude.program", "the program of Claude Code", variables=("CLAUDE_EXECUTABLE",)),
    Setting(
        "claude.directory", "settings and conversations of Claude Code", variables=("CLAUDE_CONFIG_DIR",)
    ),
    Setting(
        "claude.key",
        "key or cloud of Claude Code, instead of its login",
        variables=(
            "ANTHROPIC_API_KEY",
            "ANTHROPIC_AUTH_TOKEN",
            "CLAUDE_CODE_OAUTH_TOKEN",
            "CLAUDE_CODE_USE_BEDROCK",
            "CLAUDE_CODE_USE_VERTEX",
            "CLAUDE_CODE_USE_FOUNDRY",
        ),
        secret=True,
    ),
    Setting("codex.program", "the program of Codex", variables=("CODEX_EXECUTABLE",)),
    Setting("codex.directory", "settings, login and conversations of Codex", variables=("CODEX_HOME",)),
    Setting(
        "codex.key",
        "key of Codex, instead of its login",
        variables=("OPENAI_API_KEY", "CODEX_API_KEY"),
        secret=True,
    ),
    Setting("droid.program", "the program of Droid", variables=("DROID_EXECUTABLE",)),
    Setting("aider.model", "the model of aider, where none is chosen", variables=("AIDER_MODEL",)),
    Setting("droid.key", "key of Droid, instead of its login", variables=("FACTORY_API_KEY",), secret=True),
)
"""Every setting, but for the keys of model providers, which their own files name."""

_BY_NAME = {setting.name: setting for setting in SETTINGS}


@dataclass(frozen=True, slots=True)
class Found:
    """The value of a setting and where it comes from."""

    value: Value
    source: str
    """A flag, `$VARIABLE`, `config.toml` or `default`."""

    @property
    def is_set(self) -> bool:
        return self.source != "default"


def setting(name: str) -> Setting:
    return _BY_NAME[name]


def find(name: str, given: Value = None) -> Found:
    """Return the value of a setting.

    Args:
        name: The name in `SETTINGS`.
        given: What the caller gave. None and an empty list are not a value.

    Raises:
        BadRequest: A value, or the file that should have it, is not valid.
    """
    wanted = _BY_NAME[name]
    if given is not None and given != ():
        return Found(given, wanted.flag or "argument")
    for variable in wanted.variables:
        text = os.environ.get(variable)
        if text:
            return Found(_parsed(wanted, variable, text), f"${variable}")
    if wanted.in_file:
        stored: Value = getattr(read_config(home_dir()), name)
        if stored is not None:
            return Found(stored, "config.toml")
    return Found(wanted.default, "default")


def find_text(name: str, given: str | None = None) -> str | None:
    """Return the value of a setting that is a text, as `find` does."""
    value = find(name, given).value
    return value if isinstance(value, str) else None


def find_flag(name: str) -> bool:
    """Return whether a setting is on, as `find` does."""
    return find(name).value is True


def find_number(name: str, given: int | None = None) -> int:
    """Return the value of a setting that is a number, as `find` does."""
    value = find(name, given).value
    assert isinstance(value, int)
    return value


def find_list(name: str, given: Sequence[str] = ()) -> tuple[str, ...]:
    """Return the value of a setting that is a list, as `find` does."""
    value = find(name, tuple(given)).value
    assert isinstance(value, tuple)
    return value


def _parsed(wanted: Setting, variable: str, text: str) -> Value:
    if isinstance(wanted.default, bool):
        return text == "1"
    if wanted.name == "log_level" and text not in LOG_LEVELS:
        raise BadRequest(f"${variable} is {text!r}; it must be one of {', '.join(LOG_LEVELS)}")
    return text


def home_dir() -> Path:
    """Return the home directory: `$FARSTEER_HOME`, or `~/.farsteer`."""
    return Path(os.environ.get("FARSTEER_HOME") or "~/.farsteer").expanduser().absolute()


def config_file(home: Path) -> Path:
    return home / "config.toml"


def read_config(home: Path) -> ConfigFile:
    """Return `config.toml`. A missing file is empty.

    Raises:
        BadRequest: It is not valid.
    """
    path = config_file(home)
    try:
        content = read_own_file(path)
    except FileNotFoundError:
        return ConfigFile()
    except OSError as error:
        raise BadRequest(f"cannot read {path}: {error.strerror}") from error
    try:
        return msgspec.toml.decode(content.decode("utf-8-sig"), type=ConfigFile)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise BadRequest(f"{path}: {error}") from error


def read_own_file(path: Path) -> bytes:
    """Read a file of the home directory. Raises OSError, also for a symbolic link and for a file of another user."""
    file = os.open(path, os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0))
    with open(file, "rb") as stream:
        if sys.platform != "win32" and os.fstat(file).st_uid not in (0, os.geteuid()):
            raise PermissionError(errno.EPERM, "it belongs to another user", str(path))
        return stream.read()
