"""What a client may say, before any library looks at it."""

import pytest

from farsteer.faces.events.packets import HANG_UP, EventPacket, Json, acceptable, checked_payload


@pytest.mark.parametrize(
    "text", ["1", "2probe", "3", "5", "6", '40/events,{"token":"x"}', "41/events,", "42[]", "43"]
)
def test_what_a_client_says_is_let_through(text: str) -> None:
    assert acceptable(text)
    assert checked_payload(text.encode()) == text.encode()
    assert checked_payload(f"3\x1e{text}".encode()) == f"3\x1e{text}".encode()


@pytest.mark.parametrize(
    "text", ["", "0", "0{}", "2", "2x", "3probe", "4", "4[]", "44", "45", "46", "49", "7", "b4", "²"]
)
def test_anything_else_is_a_hang_up(text: str) -> None:
    assert not acceptable(text)
    assert checked_payload(text.encode()) == HANG_UP
    assert checked_payload(f"3\x1e{text}".encode()) == HANG_UP


def test_bytes_that_are_no_text_are_a_hang_up() -> None:
    assert checked_payload(b"42\xff") == HANG_UP


@pytest.mark.parametrize(
    "text",
    ["2/x,[]", "2/x,{}", "2/x,[1]", '2/x,["connect"]', '2["disconnect",1]', "2/x,[", "51-[]", "4"],
)
def test_packets_without_sense_are_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"not|unexpected"):
        EventPacket(encoded_packet=text)


def test_an_event_and_its_ack_id_are_read() -> None:
    packet = EventPacket(encoded_packet='2/events,12["auth",{"token":"t"}]')
    assert (packet.namespace, packet.id, packet.data) == ("/events", 12, ["auth", {"token": "t"}])


def test_json_is_compact_and_deep_nesting_is_a_value_error() -> None:
    assert Json.dumps({"a": [1, "ü"]}, separators=(",", ":")) == '{"a":[1,"ü"]}'
    for text in ("[" * 100_000, "{", ""):
        with pytest.raises(ValueError, match="not JSON"):
            Json.loads(text)
