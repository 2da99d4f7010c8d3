import msgspec
import pytest

from farsteer.core import events as ev
from farsteer.core.events import Entry, Other, Role, decode_entries, decode_entry, role_of
from farsteer.core.wire import encode


def test_an_entry_survives_the_wire() -> None:
    entry = Entry(
        id="s:1",
        seq=1,
        role=Role.AGENT,
        created_at=5,
        content=ev.AgentMessage(message_id="m", text="hi", meta={"vendor": {"x": 1}}),
    )
    assert decode_entry(encode(entry)) == entry


def test_a_kind_of_a_newer_version_is_kept_whole() -> None:
    raw = b'{"id":"s:1","seq":1,"role":"agent","createdAt":5,"content":{"kind":"hologram","shape":[1,2]}}'
    content = decode_entry(raw).content
    assert isinstance(content, Other)
    assert content.native_kind == "hologram"
    assert content.data == {"kind": "hologram", "shape": [1, 2]}


def test_many_entries_are_read_as_each_alone_also_where_one_is_of_a_newer_version() -> None:
    known = b'{"id":"s:1","seq":1,"role":"agent","createdAt":5,"content":{"kind":"plan","entries":[]}}'
    newer = b'{"id":"s:2","seq":2,"role":"agent","createdAt":5,"content":{"kind":"hologram"}}'
    for bodies in ([], [known], [known, newer, known]):
        assert decode_entries(bodies) == [decode_entry(body) for body in bodies]


def test_what_is_no_entry_at_all_is_refused() -> None:
    with pytest.raises(msgspec.ValidationError):
        decode_entry(b'{"id":"s:1","seq":"one","role":"agent","createdAt":5,"content":7}')


def test_roles() -> None:
    assert role_of(ev.UserMessage(item_id="i", text="x")) is Role.USER
    assert role_of(ev.Other(native_kind="x")) is Role.AGENT
    assert role_of(ev.TurnStart(turn_id="t")) is Role.SYSTEM


def test_every_event_of_the_vocabulary_has_its_own_kind() -> None:
    kinds = [one.__struct_config__.tag for one in ev.SessionEvent.__args__]
    assert len(kinds) == len(set(kinds)) == 24
