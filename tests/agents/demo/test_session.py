"""`DemoSession.run_in_main_thread`."""

import os
import signal
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from farsteer.agents.demo.history import History
from farsteer.agents.demo.session import DemoSession, LineWriter


@pytest.fixture
def session(tmp_path: Path) -> Iterator[DemoSession]:
    before = signal.getsignal(signal.SIGUSR1)
    folder, name = str(tmp_path), "5c5c5a5e-8a0c-4d5c-9d2e-0f4b2d3c1a10"
    yield DemoSession(LineWriter(), History.create(folder, name), folder, {"session": name, "state": folder})
    signal.signal(signal.SIGUSR1, before)


def test_a_call_runs_once_in_the_main_thread_also_if_its_signal_is_missed(
    session: DemoSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    kill = os.kill
    sent: list[int] = []
    threads: list[threading.Thread] = []

    def miss_first_signal(pid: int, number: int) -> None:
        sent.append(number)
        if len(sent) > 1:
            kill(pid, number)
            kill(pid, number)

    monkeypatch.setattr(os, "kill", miss_first_signal)
    session.install_signal_handler()
    worker = threading.Thread(
        target=session.run_in_main_thread, args=(lambda: threads.append(threading.current_thread()),)
    )
    worker.start()
    worker.join(10)
    assert not worker.is_alive()
    assert sent == [signal.SIGUSR1] * 2
    assert threads == [threading.main_thread()]
