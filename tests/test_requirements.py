"""No locked requirement is older than the fix of a vulnerability that we know of.

The table is checked offline; `make audit` asks the advisory databases where a network allows it.
"""

from __future__ import annotations

import re

import pytest

from tests.audit import main
from tests.test_repository import pins

FIXED_IN = [
    ("aiohttp", "3.13.3", "CVE-2025-69223"),
    ("certifi", "2024.7.4", "CVE-2024-39689"),
    ("cryptography", "44.0.1", "CVE-2024-12797"),
    ("h11", "0.16.0", "CVE-2025-43859"),
    ("idna", "3.7", "CVE-2024-3651"),
    ("pygments", "2.15.0", "CVE-2022-40896"),
    ("python-socketio", "5.14.0", "CVE-2025-61765"),
    ("python-socketio", "5.16.4", "incomplete binary packets were kept for ever"),
    ("requests", "2.32.4", "CVE-2024-47081"),
    ("starlette", "0.47.2", "CVE-2025-54121"),
    ("starlette", "0.49.1", "CVE-2025-62727"),
    ("starlette", "1.3.1", "the least that we have reviewed"),
    ("urllib3", "2.6.0", "CVE-2025-66418"),
]
"""Package, the first version without the weakness, and its name."""

VULNERABLE = """{"dependencies": [{"name": "a", "version": "1", "vulns":
    [{"id": "PYSEC-1", "aliases": ["CVE-1"], "fix_versions": ["2"]}]}]}"""
"""A report of pip-audit."""


def _numbers(version: str) -> tuple[int, ...]:
    return tuple(map(int, re.findall(r"\d+", version)))


@pytest.mark.parametrize("lock", ["runtime", "dev"])
def test_no_locked_requirement_has_a_known_vulnerability(lock: str) -> None:
    locked = pins(lock)
    old = [
        f"{name} {locked[name]}: {weakness}, fixed in {fixed}"
        for name, fixed, weakness in FIXED_IN
        if name in locked and _numbers(locked[name]) < _numbers(fixed)
    ]
    assert old == []


def test_every_row_of_the_table_is_about_a_requirement_of_ours() -> None:
    assert [name for name, _, _ in FIXED_IN if name not in pins("dev")] == []


@pytest.mark.parametrize(
    ("report", "code", "says"),
    [
        ('{"dependencies": [{"name": "a", "version": "1", "vulns": []}]}', 0, "1 requirements audited"),
        ('{"dependencies": [{"name": "a", "skip_reason": "not found"}]}', 0, "NOT AUDITED"),
        ("", 0, "NOT AUDITED"),
        (
            VULNERABLE,
            1,
            "a 1: PYSEC-1 CVE-1; fixed in 2",
        ),
    ],
)
def test_an_audit_says_what_it_could_not_ask(
    report: str, code: int, says: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    class Answer:
        stdout = report

    monkeypatch.setattr("tests.audit.subprocess.run", lambda *_, **__: Answer)
    assert main("pip-audit", "requirements/runtime.txt") == code
    assert says in capsys.readouterr().out
