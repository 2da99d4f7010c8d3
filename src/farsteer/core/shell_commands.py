"""Finds the commands in a shell script: every program that it may start, for people and rules that have to judge it.

The script is parsed with tree-sitter's grammar of Bash. Commands that run other commands (`sudo`, `xargs`, `bash -c`)
are looked into. Whatever cannot be resolved is returned as a command of its own with its whole text, and so is a script
that does not parse: a command may be shown together with too much, and is never left out.

What a program starts by itself is not known here, nor what an alias or a sourced file does.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from tree_sitter import Node, Parser

_MAX_BYTES = 64 * 1024
"""A longer script is not parsed: nobody reads a list of what is in it."""
_MAX_DEPTH = 8
"""How deep scripts inside of scripts are looked into (`bash -c "bash -c …"`)."""


class ShellCommand(NamedTuple):
    name: str
    """The program as it is written, without quotes; or the text that could not be resolved."""
    words: tuple[str, ...] = ()
    """The arguments, without quotes where they have no expansions."""


class _Wrapper(NamedTuple):
    """How to find the command that another command runs."""

    flags: str = ""
    """Its short options without a value, as one string."""
    valued: str = ""
    """Its short options with a value."""
    long_flags: tuple[str, ...] = ()
    skipped: int = 0
    """How many arguments come before the command."""


_WRAPPERS = {
    "builtin": _Wrapper(),
    "busybox": _Wrapper(),
    "chronic": _Wrapper(),
    "chroot": _Wrapper(skipped=1),
    "command": _Wrapper(flags="pvV"),
    "coproc": _Wrapper(),
    "doas": _Wrapper(flags="nsL", valued="uC"),
    "env": _Wrapper(flags="i0v", valued="uC", long_flags=("--ignore-environment", "--null", "--debug")),
    "exec": _Wrapper(flags="cl", valued="a"),
    "flock": _Wrapper(flags="sxeunFo", valued="wE", skipped=1),
    "ionice": _Wrapper(flags="t", valued="cn"),
    "nice": _Wrapper(valued="n"),
    "nohup": _Wrapper(),
    "setsid": _Wrapper(flags="cfw", long_flags=("--ctty", "--fork", "--wait")),
    "stdbuf": _Wrapper(valued="ioe"),
    "sudo": _Wrapper(
        flags="AbEHnPSkK", valued="ughpCrtTUDR", long_flags=("--preserve-env", "--non-interactive", "--set-home")
    ),
    "time": _Wrapper(flags="pv"),
    "timeout": _Wrapper(flags="v", valued="ks", long_flags=("--foreground", "--preserve-status"), skipped=1),
    "xargs": _Wrapper(
        flags="0rtpx", valued="InPLdEsa", long_flags=("--null", "--no-run-if-empty", "--verbose", "--exit")
    ),
}  # fmt: skip
"""An option that is in none of these lists may have a value: then the whole command is returned, too."""
_SHELLS = frozenset({"sh", "bash", "dash", "zsh", "ksh", "ash", "fish", "rbash"})
_READ_SCRIPTS = frozenset(
    {*_SHELLS, "su", "ssh", "watch", "script", "parallel", "entr", "systemd-run", "runuser"}
)
"""Commands whose arguments contain a script in a form that depends on their options."""
_STATEMENT_PARTS = frozenset({"redirected_statement", "pipeline", "heredoc_redirect", "compound_statement"})
_FIND_ACTIONS = frozenset({"-exec", "-execdir", "-ok", "-okdir"})


def find_commands(script: str) -> list[ShellCommand]:
    """Return the commands that a script contains, in the order of their text, each once."""
    return [*dict.fromkeys(_find(script, 0))]


def _find(script: str, depth: int) -> Iterator[ShellCommand]:
    source = script.encode(errors="replace")
    if not script.strip():
        return
    root = _parser().parse(source).root_node if len(source) <= _MAX_BYTES and depth < _MAX_DEPTH else None
    if root is None or root.has_error:
        yield ShellCommand(script.strip())
        return
    waiting = [root]
    while waiting:
        node = waiting.pop()
        if node.type == "command":
            yield from _Command(node, source, depth).commands()
        elif node.type in ("declaration_command", "unset_command") or _text(*node.children[:1]) == "[":
            yield ShellCommand(_text(*node.children[:1]))
        waiting += reversed(node.children)


class _Command:
    """A simple command of the syntax tree: a name, arguments and redirections."""

    def __init__(self, node: Node, source: bytes, depth: int) -> None:
        self._node = node
        self._source = source
        self._depth = depth
        name = node.child_by_field_name("name")
        arguments = [*node.children_by_field_name("argument"), *_later_arguments(node)]
        self._is_named = name is not None and _literal(name) is not None
        self._words = [] if name is None else [_word(name), *map(_word, arguments)]
        """The words; one with an expansion is kept as it is written."""
        self._is_literal = [_literal(argument) is not None for argument in arguments]

    def commands(self) -> Iterator[ShellCommand]:
        if self._is_named:
            yield from self._resolve(self._words, self._is_literal)
        elif self._words:
            # If the expansion is empty, the first argument is the command.
            yield self._whole()

    def _resolve(self, words: list[str], is_literal: list[bool]) -> Iterator[ShellCommand]:
        """Return the command that the words are, and those that it runs."""
        name, arguments = words[0], words[1:]
        yield ShellCommand(name, tuple(arguments))
        program = name.rpartition("/")[2]
        if program in _WRAPPERS:
            yield from self._wrapped(
                _WRAPPERS[program], arguments, is_literal, takes_variables=program in ("env", "sudo")
            )
        elif program == "find":
            for index, word in enumerate(arguments[:-1]):
                if word in _FIND_ACTIONS:
                    yield from self._resolve(arguments[index + 1 :], is_literal[index + 1 :])
        elif program == "eval" and arguments:
            yield from self._script(" ".join(arguments), all(is_literal))
        elif program == "trap" and arguments and arguments[0] not in ("-", "-l", "-p", ""):
            yield from self._script(arguments[0], is_literal[0])
        elif program in _READ_SCRIPTS:
            yield from self._given_script(program, arguments, is_literal)

    def _wrapped(
        self, wrapper: _Wrapper, arguments: list[str], is_literal: list[bool], *, takes_variables: bool
    ) -> Iterator[ShellCommand]:
        index, to_skip = 0, wrapper.skipped
        while index < len(arguments):
            word = arguments[index]
            if not is_literal[index]:
                # An expansion may be an option, the command, or both.
                yield self._whole()
                return
            if word == "--":
                index += 1
                continue
            if word.startswith("-") and len(word) > 1:
                used = _option_length(wrapper, word)
                if used is None:
                    yield self._whole()
                    return
                index += used
            elif takes_variables and "=" in word:
                index += 1
            elif to_skip:
                to_skip -= 1
                index += 1
            else:
                yield from self._resolve(arguments[index:], is_literal[index:])
                return

    def _given_script(
        self, program: str, arguments: list[str], is_literal: list[bool]
    ) -> Iterator[ShellCommand]:
        """Look into a script that a shell gets as an argument or on its standard input."""
        if program not in _SHELLS:
            yield self._whole()
            return
        for index, word in enumerate(arguments):
            if word.startswith("-") and not word.startswith("--") and word.endswith("c"):
                if index + 1 < len(arguments):
                    yield from self._script(arguments[index + 1], is_literal[index + 1])
                return
            if not word.startswith(("-", "+")):
                # A file, or the value of an option before `-c`.
                if any(later.startswith("-") for later in arguments[index:]):
                    yield self._whole()
                return
        yield from self._standard_input()

    def _standard_input(self) -> Iterator[ShellCommand]:
        """Look into what a shell reads: a here-document, a here-string, or the output of the commands before it."""
        for node in self._redirects():
            if node.type == "herestring_redirect":
                value = node.children[-1]
                yield from self._script(_word(value), _literal(value) is not None)
            else:
                body = [child for child in node.children if child.type in ("heredoc_start", "heredoc_end")]
                start = self._source.find(b"\n", body[0].end_byte)
                text = self._source[start : body[-1].start_byte].decode(errors="replace")
                yield from _find(text, self._depth + 1)
        statement = self._node
        while statement.parent is not None and statement.parent.type in _STATEMENT_PARTS:
            statement = statement.parent
        if statement.type in ("pipeline", "heredoc_redirect") or statement.start_byte < self._node.start_byte:
            yield ShellCommand(_text(statement).strip())

    def _redirects(self) -> Iterator[Node]:
        nodes = [*self._node.children, *(self._node.parent.children if self._node.parent is not None else ())]
        return (node for node in nodes if node.type in ("herestring_redirect", "heredoc_redirect"))

    def _script(self, text: str, is_literal: bool) -> Iterator[ShellCommand]:
        if is_literal:
            yield from _find(text, self._depth + 1)
        else:
            # Its commands depend on the expansion.
            yield ShellCommand(text)

    def _whole(self) -> ShellCommand:
        """Return the command with all its words as they are written, also those behind a redirection."""
        end = max([self._node.end_byte, *(node.end_byte for node in _later_arguments(self._node))])
        return ShellCommand(self._source[self._node.start_byte : end].decode(errors="replace").strip())


def _later_arguments(command: Node) -> Iterator[Node]:
    """Return the arguments behind a redirection, which the grammar counts as parts of the redirection."""
    statement = command
    while statement.parent is not None and statement.parent.type in ("list", "pipeline", "negated_command"):
        if statement.parent.children[-1] != statement:
            return
        statement = statement.parent
    if statement.parent is None or statement.parent.type != "redirected_statement":
        return
    for redirect in statement.parent.children:
        if redirect.type == "file_redirect":
            yield from redirect.children_by_field_name("destination")[1:]
        elif redirect.type == "heredoc_redirect":
            yield from redirect.children_by_field_name("argument")


def _option_length(wrapper: _Wrapper, word: str) -> int | None:
    """Return how many words an option takes, None if that is not known."""
    if word.startswith("--"):
        return 1 if "=" in word or word in wrapper.long_flags else None
    for position, letter in enumerate(word[1:], 1):
        if letter in wrapper.valued:
            return 1 if position < len(word) - 1 else 2
        if letter not in wrapper.flags:
            return None
    return 1


# -- words


def _word(node: Node) -> str:
    """Return a word without its quotes if it has no expansion, else as it is written."""
    literal = _literal(node)
    return _text(node) if literal is None else literal


def _literal(node: Node) -> str | None:
    """Return the value of a word, None if only the shell knows it."""
    match node.type:
        case "command_name" if node.child_count == 1:
            return _literal(node.children[0])
        case "word":
            text = _text(node)
            return None if any(mark in text for mark in "*?[~{") else _unescape(text)
        case "number":
            return _text(node)
        case "raw_string":
            return _text(node)[1:-1]
        case "string":
            text = _text(node)[1:-1]
            if any(child.type not in ('"', "string_content") for child in node.children):
                return None
            return _unescape_quoted(text)
        case "concatenation":
            parts = [_literal(child) for child in node.children]
            return None if None in parts else "".join(part for part in parts if part is not None)
        case _:
            return None


def _unescape(text: str) -> str:
    value, characters = "", iter(text)
    for character in characters:
        if character == "\\":
            character = next(characters, "")
            character = "" if character == "\n" else character
        value += character
    return value


def _unescape_quoted(text: str) -> str:
    for escaped in ('\\"', "\\$", "\\`"):
        text = text.replace(escaped, escaped[1])
    return text.replace("\\\n", "").replace("\\\\", "\\")


def _text(*nodes: Node) -> str:
    return b"".join(node.text or b"" for node in nodes).decode(errors="replace")


@cache
def _parser() -> Parser:
    import tree_sitter_bash
    from tree_sitter import Language, Parser

    return Parser(Language(tree_sitter_bash.language()))
