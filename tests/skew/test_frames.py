"""The frames of every release mean to this version what they meant, and the other way round."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import msgspec
import pytest

from farsteer import __version__
from farsteer.link.frames import decode_at_hub, decode_at_runner, encode_frame
from farsteer.link.messages import (
    OLDEST_PROTOCOL,
    PROTOCOL,
    Hello,
    ToHub,
    ToRunner,
    UnknownCall,
    UnknownMessage,
    Welcome,
)
from tests.skew import examples
from tests.skew.releases import RELEASES, Release, SourceMissing, extract

TO_HUB, TO_RUNNER = dict(examples.to_hub()), dict(examples.to_runner())
GOLDEN = [
    pytest.param(release, path, id=f"{release.version}-{path.stem}")
    for release in RELEASES
    for path in sorted(release.golden.glob("*.json"))
]
NEVER_SENT = {"unknown", "unknown_call"}
"""Kinds that stand for what cannot be decoded."""


def example(path: Path) -> Any:
    direction, _, name = path.stem.partition("_hub_" if path.stem.startswith("to_hub_") else "_runner_")
    return (TO_HUB if path.stem.startswith("to_hub_") else TO_RUNNER)[name] if direction else None


@pytest.mark.parametrize(("release", "path"), GOLDEN)
def test_a_frame_of_a_release_is_understood(release: Release, path: Path) -> None:
    frame = path.read_bytes().strip()
    decode = decode_at_hub if path.stem.startswith("to_hub_") else decode_at_runner
    assert decode(frame) == example(path)


@pytest.mark.parametrize(("release", "path"), GOLDEN)
def test_a_release_finds_everything_that_it_needs_in_a_frame_of_this_version(
    release: Release, path: Path
) -> None:
    needed, sent = json.loads(path.read_bytes()), json.loads(encode_frame(example(path)))
    assert _contains(sent, needed), f"{sent} lacks something of {needed}"


def _contains(sent: Any, needed: Any) -> bool:
    if isinstance(needed, dict):
        return isinstance(sent, dict) and all(
            key in sent and _contains(sent[key], value) for key, value in needed.items()
        )
    if isinstance(needed, list):
        return len(sent) == len(needed) and all(map(_contains, sent, needed))
    return sent == needed


def test_every_kind_and_command_has_a_golden_frame_from_its_release_on() -> None:
    for union, given in ((ToHub, TO_HUB), (ToRunner, TO_RUNNER)):
        kinds = {kind.__struct_config__.tag for kind in union.__args__} - NEVER_SENT
        assert {message.__struct_config__.tag for message in given.values()} == kinds
    commands = {type(call.command) for name, call in TO_RUNNER.items() if name.startswith("call_")}
    assert commands == set(examples.commands.Command.__args__)
    for release in RELEASES:
        assert len([*release.golden.glob("to_hub_*.json")]) >= 7
        assert len([*release.golden.glob("to_runner_*.json")]) >= 18


def test_this_version_is_newer_than_every_release_and_speaks_with_the_last() -> None:
    numbers = [tuple(map(int, release.version.split("."))) for release in RELEASES]
    assert numbers == sorted(numbers)
    ours = tuple(int(part) for part in __version__.split(".")[:3])
    assert ours > numbers[-1] or __version__ == RELEASES[-1].version
    assert OLDEST_PROTOCOL <= RELEASES[-1].protocol <= PROTOCOL


_DECODE = """
import sys
from farsteer.link import frames
for line in sys.stdin.buffer:
    direction, _, frame = line.strip().partition(b" ")
    message = (frames.decode_at_hub if direction == b"hub" else frames.decode_at_runner)(frame)
    print(type(message).__name__)
"""


@pytest.mark.slow
@pytest.mark.parametrize("release", RELEASES, ids=lambda release: release.version)
def test_a_release_decodes_what_this_version_sends_to_it(release: Release, tmp_path: Path) -> None:
    """With the code of the release, and with the fields that it does not know."""
    try:
        source = extract(release, tmp_path)
    except SourceMissing as missing:
        pytest.skip(str(missing))
    golden = {path.stem for path in release.golden.iterdir()}
    hello = msgspec.structs.replace(
        TO_HUB["hello"], newest=PROTOCOL, instance="i", place="p", boot="b", lease=3, confirmed={"s": 1}
    )
    welcome = msgspec.structs.replace(TO_RUNNER["welcome"], lease=4)
    assert isinstance(hello, Hello)
    assert isinstance(welcome, Welcome)
    sent = [("hub", hello), ("runner", welcome)]
    sent += [("hub", message) for name, message in TO_HUB.items() if f"to_hub_{name}" in golden]
    sent += [("runner", message) for name, message in TO_RUNNER.items() if f"to_runner_{name}" in golden]
    lines = b"".join(f"{to} ".encode() + encode_frame(message) + b"\n" for to, message in sent)
    done = subprocess.run(
        [sys.executable, "-c", _DECODE], input=lines, capture_output=True, check=False, cwd=tmp_path, timeout=60,
        env={"PYTHONPATH": str(source), "PATH": os.environ["PATH"]},
    )  # fmt: skip
    assert done.stderr == b""
    assert done.stdout.decode().split() == [type(message).__name__ for _, message in sent]


def test_a_message_of_an_unknown_kind_is_no_reason_to_hang_up() -> None:
    frame = b'{"t":"news","session":"s","payload":{"a":[1,2]}}'
    assert decode_at_hub(frame) == UnknownMessage("news")
    assert decode_at_runner(frame) == UnknownMessage("news")


@pytest.mark.parametrize(
    "command",
    [
        b'{"do":"teleport","to":"mars"}',
        b'{"do":"configure","permissionMode":"a mode of tomorrow"}',
        b'{"do":"send"}',
        b"7",
    ],
)
def test_a_call_with_an_unknown_command_can_be_answered(command: bytes) -> None:
    call = decode_at_runner(b'{"t":"call","id":5,"session":"s","command":' + command + b"}")
    assert isinstance(call, UnknownCall)
    assert call.id == 5


@pytest.mark.parametrize(("release", "path"), GOLDEN)
def test_unknown_fields_are_ignored(release: Release, path: Path) -> None:
    newer = json.loads(path.read_bytes()) | {"of_tomorrow": {"a": 1}}
    decode = decode_at_hub if path.stem.startswith("to_hub_") else decode_at_runner
    assert decode(json.dumps(newer, separators=(",", ":")).encode()) == example(path)
