"""The commands that aider suggests."""

from __future__ import annotations

import threading
from pathlib import Path

import psutil
import pytest

from farsteer.agents.aider.worker_shell import Shell

pytestmark = pytest.mark.slow


def test_output_is_shown_as_it_comes_and_returned_with_the_exit_code(tmp_path: Path) -> None:
    shown: list[str] = []
    assert Shell(str(tmp_path)).run("pwd; echo grün >&2; exit 3", shown.append) == (3, f"{tmp_path}\ngrün\n")
    assert "".join(shown) == f"{tmp_path}\ngrün\n"


def test_it_has_no_input(tmp_path: Path) -> None:
    assert Shell(str(tmp_path)).run("cat; echo end", lambda text: None) == (0, "end\n")


def test_much_output_is_cut(tmp_path: Path) -> None:
    code, output = Shell(str(tmp_path)).run("yes | head -c 1000000", lambda text: None)
    assert (code, len(output)) == (0, 100_000)


def test_what_a_command_leaves_in_the_background_does_not_keep_it_waiting(tmp_path: Path) -> None:
    code, output = Shell(str(tmp_path)).run("sleep 60 & echo $!", lambda text: None)
    left = psutil.Process(int(output))
    left.kill()
    psutil.wait_procs([left], 5)
    assert code == 0


def test_it_can_be_killed_from_another_thread(tmp_path: Path) -> None:
    shell, begun = Shell(str(tmp_path)), threading.Event()
    found: list[tuple[int, str]] = []
    thread = threading.Thread(
        target=lambda: found.append(shell.run("echo begun; sleep 60", lambda text: begun.set()))
    )
    thread.start()
    assert begun.wait(10)
    shell.kill()
    thread.join(10)
    assert found == [(-9, "begun\n")]


def test_an_error_while_it_runs_kills_it(tmp_path: Path) -> None:
    def stop(text: str) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        Shell(str(tmp_path)).run("echo begun; sleep 60", stop)
    assert psutil.Process().children(recursive=True) == []
