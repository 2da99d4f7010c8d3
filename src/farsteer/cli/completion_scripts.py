"""Completion scripts for bash, zsh and fish, written from the commands in `farsteer.cli.parsers`."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence

from farsteer.cli.parsers import Command, Option, Values

# bash

_BASH = """\
# Completes farsteer in bash: source <(farsteer completion bash)

_farsteer_option() {{  # COMMAND OPTION: sets values, or fails if the option takes none
    case "$1 $2" in
{options}
    *) return 1 ;;
    esac
}}

_farsteer_argument() {{  # COMMAND POSITION: sets values
    case "$1 $2" in
{arguments}
    *) values=(none) ;;
    esac
}}

_farsteer_flags() {{  # COMMAND: sets values
    case "$1" in
{flags}
    *) values=(none) ;;
    esac
}}

_farsteer() {{
    local current="${{COMP_WORDS[COMP_CWORD]}}" previous="${{COMP_WORDS[COMP_CWORD-1]}}"
    local command="${{COMP_WORDS[1]}}" position=0 index word values
    COMPREPLY=()
    if [[ $current == = ]]; then
        current=
    elif [[ $previous == = ]]; then
        previous="${{COMP_WORDS[COMP_CWORD-2]}}"
    fi
    if ((COMP_CWORD == 1)); then
        values=(none {commands} --help --version)
    elif _farsteer_option "$command" "$previous"; then
        :
    elif [[ $current == -* ]]; then
        _farsteer_flags "$command"
    else
        for ((index = 2; index < COMP_CWORD; index++)); do
            word="${{COMP_WORDS[index]}}"
            if _farsteer_option "$command" "$word"; then
                [[ ${{COMP_WORDS[index+1]}} == = ]] && index=$((index + 1))
                index=$((index + 1))
            elif [[ $word != -* ]]; then
                position=$((position + 1))
            fi
        done
        _farsteer_argument "$command" "$position"
    fi
    for word in "${{values[@]:1}}"; do
        [[ $word == "$current"* ]] && COMPREPLY+=("$word")
    done
    case "${{values[0]}}" in
    none) ;;
    directories | files)
        compopt -o filenames 2>/dev/null || :
        while IFS= read -r word; do
            COMPREPLY+=("$word")
        done < <(if [[ ${{values[0]}} == files ]]; then compgen -f -- "$current"; else compgen -d -- "$current"; fi)
        ;;
    *)
        while IFS=$'\\t' read -r word _; do
            [[ $word == "$current"* ]] && COMPREPLY+=("$word")
        done < <("${{COMP_WORDS[0]/#\\~/$HOME}}" completion --list "${{values[0]}}" 2>/dev/null </dev/null)
        ;;
    esac
    return 0
}}

complete -F _farsteer farsteer"""


def _bash(found: Sequence[Command]) -> str:
    def values(of: Values) -> str:
        return f"values=({' '.join((of.kind, *of.words))}) ;;"

    options = [
        f"    {' | '.join(_quoted(f'{command.name} {flag}') for flag in option.flags)}) {values(option.values)}"
        for command in found
        for option in command.options
        if option.values
    ]
    arguments: list[str] = []
    for command in found:
        for position, argument in enumerate(command.arguments):
            last = command.repeats and position == len(command.arguments) - 1
            number = ' "*' if last else f' {position}"'
            arguments.append(f'    "{command.name}{number}) {values(argument)}')
    flags = [
        f"    {command.name}) values=(none {' '.join(flag for option in command.options for flag in option.flags)}) ;;"
        for command in found
    ]
    return _BASH.format(
        options="\n".join(options),
        arguments="\n".join(arguments),
        flags="\n".join(flags),
        commands=" ".join(command.name for command in found),
    )


# zsh

_ZSH = """\
#compdef farsteer
# Completes farsteer in zsh: source <(farsteer completion zsh), after compinit

_farsteer_values() {{  # KIND [WORD...]
    local kind=$1 word note
    local -a found
    shift
    found=("$@")
    if [[ $kind != none ]]; then
        while IFS=$'\\t' read -r word note; do
            found+=("$word${{note:+:$note}}")
        done < <(farsteer completion --list $kind 2>/dev/null </dev/null)
    fi
    _describe -t values value found
}}

_farsteer() {{
    local curcontext=$curcontext state line
    local -a commands
    commands=(
{commands}
    )
    _arguments -C '(- *)'{{-h,--help}}'[list the commands]' '(- *)'{{-V,--version}}'[print the version]' \\
        '1: :->command' '*:: :->rest' && return
    case $state in
    command) _describe -t commands command commands ;;
    rest)
        case $words[1] in
{cases}
        esac
        ;;
    esac
}}

if [[ $funcstack[1] == _farsteer ]]; then
    _farsteer "$@"
else
    compdef _farsteer farsteer
fi"""


def _zsh(found: Sequence[Command]) -> str:
    names = "\n".join(f"        {_quoted(f'{command.name}:{command.summary}')}" for command in found)
    cases: list[str] = []
    for command in found:
        specs = [spec for option in command.options for spec in _zsh_option(option)]
        for position, argument in enumerate(command.arguments, 1):
            last = command.repeats and position == len(command.arguments)
            specs.append(_quoted(f"{'*' if last else position}: :{_zsh_action(argument)}"))
        lines = " \\\n                ".join(specs)
        cases.append(
            f"        {command.name})\n            _arguments \\\n                {lines}\n            ;;"
        )
    return _ZSH.format(commands=names, cases="\n".join(cases))


def _zsh_option(option: Option) -> Iterator[str]:
    note = re.sub(r"([\[\]:\\])", r"\\\1", option.help)
    for flag in option.flags:
        if option.values is None:
            yield _quoted(f"{flag}[{note}]")
        else:
            equals = "=" if flag.startswith("--") else "+"
            yield _quoted(f"*{flag}{equals}[{note}]: :{_zsh_action(option.values)}")


def _zsh_action(values: Values) -> str:
    if values.kind in ("directories", "files"):
        return "_files -/" if values.kind == "directories" else "_files"
    if values == Values():
        return " "
    # After a space, zsh calls the function with these arguments and none of its own.
    return f" _farsteer_values {' '.join((values.kind, *values.words))}"


# fish

_FISH = """\
# Completes farsteer in fish: farsteer completion fish > ~/.config/fish/completions/farsteer.fish

function __farsteer_command --description 'Whether the command is this one'
    set -l words (commandline -opc)
    test (count $words) -ge 2; and test "$words[2]" = $argv[1]
end

function __farsteer_argument --description 'COMMAND FIRST LAST OPTION...: whether such an argument comes next'
    __farsteer_command $argv[1]; or return 1
    set -l words (commandline -opc)
    set -l position 0
    set -l skip 0
    for word in $words[3..-1]
        if test $skip -eq 1
            set skip 0
        else if contains -- $word $argv[4..-1]
            set skip 1
        else if not string match -q -- '-*' $word
            set position (math $position + 1)
        end
    end
    test $skip -eq 0; and test $position -ge $argv[2]; and test $position -le $argv[3]
end

complete -c farsteer -f
{lines}"""

_MANY = 9999


def _fish(found: Sequence[Command]) -> str:
    first = _quoted("test (count (commandline -opc)) -eq 1")
    lines = [
        f"complete -c farsteer -n {first} -a {command.name} -d {_quoted(command.summary)}"
        for command in found
    ]
    for command in found:
        condition = _quoted(f"__farsteer_command {command.name}")
        for option in command.options:
            flags = " ".join(
                f"-l {flag[2:]}" if flag.startswith("--") else f"-s {flag[1:]}" for flag in option.flags
            )
            values = "" if option.values is None else _fish_values(option.values, option=True)
            lines.append(f"complete -c farsteer -n {condition} {flags}{values} -d {_quoted(option.help)}")
        for position, argument in enumerate(command.arguments):
            last = _MANY if command.repeats and position == len(command.arguments) - 1 else position
            place = " ".join((command.name, str(position), str(last), *command.valued_flags()))
            values = _fish_values(argument, option=False)
            if values:
                lines.append(f"complete -c farsteer -n {_quoted(f'__farsteer_argument {place}')}{values}")
    return _FISH.format(lines="\n".join(lines))


def _fish_values(values: Values, *, option: bool) -> str:
    if values.kind == "files":
        return " -r -F" if option else " -F"
    listed = {"none": "", "directories": "(__fish_complete_directories)"}.get(
        values.kind, f"(farsteer completion --list {values.kind} 2>/dev/null)"
    )
    words = " ".join(part for part in (*values.words, listed) if part)
    given = f" -a {_quoted(words)}" if words else ""
    return f" -x{given}" if option else given


def _quoted(text: str) -> str:
    """Return `text` in single quotes, which bash, zsh and fish read alike if it contains none."""
    return "'" + text.replace("'", "") + "'"


SCRIPTS: dict[str, Callable[[Sequence[Command]], str]] = {"bash": _bash, "zsh": _zsh, "fish": _fish}
