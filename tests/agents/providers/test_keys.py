from __future__ import annotations

from pathlib import Path

import pytest

from farsteer.agents.providers.keys import delete_key, read_key, store_key
from farsteer.core.errors import BadRequest


def test_a_stored_key_is_readable_by_its_owner_only(tmp_path: Path) -> None:
    store_key(tmp_path, "glm", " secret-1\n")
    assert read_key(tmp_path, "glm") == "secret-1"
    file = tmp_path / "keys" / "glm"
    assert (file.stat().st_mode & 0o777, file.parent.stat().st_mode & 0o777) == (0o600, 0o700)


def test_a_new_key_replaces_the_old_one_and_a_deleted_one_is_gone(tmp_path: Path) -> None:
    store_key(tmp_path, "glm", "one")
    store_key(tmp_path, "glm", "two")
    assert read_key(tmp_path, "glm") == "two"
    assert delete_key(tmp_path, "glm")
    assert read_key(tmp_path, "glm") is None
    assert not delete_key(tmp_path, "glm")


@pytest.mark.parametrize("text", ["", "  \n", "two words", "line\nbreak", "k\x00", "k" * 2001, "schlüssel"])
def test_a_text_that_cannot_be_a_key_is_refused_and_the_old_key_stays(tmp_path: Path, text: str) -> None:
    store_key(tmp_path, "glm", "old")
    with pytest.raises(BadRequest):
        store_key(tmp_path, "glm", text)
    assert read_key(tmp_path, "glm") == "old"


def test_a_damaged_file_is_named(tmp_path: Path) -> None:
    store_key(tmp_path, "glm", "old")
    (tmp_path / "keys" / "glm").write_bytes(b"\xff\xfe")
    with pytest.raises(BadRequest, match="keys/glm"):
        read_key(tmp_path, "glm")
