from __future__ import annotations

from pathlib import Path

import pytest

from farsteer.agents.acp.terminals import command_argv
from farsteer.jsonrpc.errors import RpcError


def test_a_program_with_arguments_is_run_as_it_is() -> None:
    assert command_argv("echo", ["a b", ";"], "/bin") == ["echo", "a b", ";"]
    assert command_argv("ls", [], "/bin") == ["ls"]


def test_a_whole_command_line_in_the_place_of_the_program_is_run_by_a_shell(tmp_path: Path) -> None:
    line = "/bin/bash -lc \"sh -c 'touch x'\""
    assert command_argv(line, [], "/bin") == ["/bin/sh", "-c", line]
    program = tmp_path / "my program"
    program.write_text("#!/bin/sh\n")
    program.chmod(0o755)
    assert command_argv(str(program), [], "/bin") == [str(program)]


@pytest.mark.parametrize(("command", "args"), [("", []), ("a\0b", []), ("a", ["\0"])])
def test_what_is_no_command_is_refused(command: str, args: list[str]) -> None:
    with pytest.raises(RpcError):
        command_argv(command, args, "/bin")
