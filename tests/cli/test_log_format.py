"""No text of a client, a runner or an agent forges a record of the log or controls the terminal that shows it."""

import logging
import sys

from farsteer.cli.daemon.process import SafeFormatter

EVIL = "host\r\n12:00:00 INFO farsteer: forged\x1b]0;owned\x07\u202edetrever"


def formatted(message: str, argument: str, *, raised: str | None = None) -> str:
    error = None
    try:
        if raised is not None:
            raise ValueError(raised)
    except ValueError:
        error = sys.exc_info()
    record = logging.LogRecord("farsteer.test", logging.INFO, __file__, 1, message, (argument,), error)
    return SafeFormatter("%(levelname)s %(name)s: %(message)s").format(record)


def test_a_hostile_host_name_forges_no_record() -> None:
    assert formatted("machine (%s) is connected", EVIL) == (
        "INFO farsteer.test: machine (host 12:00:00 INFO farsteer: forged]0;owneddetrever) is connected"
    )


def test_a_hostile_error_forges_no_record_behind_a_traceback() -> None:
    first, *rest = formatted("failed: %s", "x", raised=EVIL).splitlines()
    assert first == "INFO farsteer.test: failed: x"
    assert rest
    assert all(line.startswith("  ") and line.isprintable() for line in rest)


def test_a_record_is_bounded() -> None:
    assert len(formatted("%s", "x" * 1_000_000)) < 3000
