from __future__ import annotations

import os
from pathlib import Path

import pytest

from farsteer.agents.acp import files
from farsteer.agents.acp.files import check_place, read_text, write_text
from farsteer.jsonrpc.errors import INVALID_PARAMS, RESOURCE_NOT_FOUND, RpcError


@pytest.fixture
def roots(tmp_path: Path) -> tuple[str, ...]:
    (tmp_path / "project").mkdir()
    return (str(tmp_path / "project"),)


def test_lines_of_a_file_are_read(tmp_path: Path, roots: tuple[str, ...]) -> None:
    path = tmp_path / "project" / "a.txt"
    path.write_text("one\ntwo\nthree")
    assert read_text(str(path), roots, None, None) == "one\ntwo\nthree"
    assert read_text(str(path), roots, 2, None) == "two\nthree"
    assert read_text(str(path), roots, None, 1) == "one\n"
    assert read_text(str(path), roots, 9, 9) == ""


def test_a_file_is_written_with_its_directories(tmp_path: Path, roots: tuple[str, ...]) -> None:
    path = tmp_path / "project" / "new" / "er" / "a.txt"
    write_text(str(path), roots, "a long text")
    write_text(str(path), roots, "short")
    assert path.read_text() == "short"


def test_a_link_inside_of_the_directory_is_followed(tmp_path: Path, roots: tuple[str, ...]) -> None:
    (tmp_path / "project" / "real.txt").write_text("real")
    link = tmp_path / "project" / "link.txt"
    link.symlink_to("real.txt")
    assert read_text(str(link), roots, None, None) == "real"


@pytest.mark.parametrize("path", ["../secret", "out/secret", "link", "relative", "/etc/passwd", "a\0b", ""])
def test_what_leads_out_is_refused(tmp_path: Path, roots: tuple[str, ...], path: str) -> None:
    (tmp_path / "secret").write_text("secret")
    (tmp_path / "project" / "out").symlink_to(tmp_path)
    (tmp_path / "project" / "link").symlink_to(tmp_path / "secret")
    whole = path if path in ("relative", "") else os.path.join(roots[0], path)
    for attempt in (
        lambda: check_place(whole, roots),
        lambda: read_text(whole, roots, None, None),
        lambda: write_text(whole, roots, "changed"),
    ):
        with pytest.raises(RpcError) as caught:
            attempt()
        assert caught.value.code == INVALID_PARAMS
    assert (tmp_path / "secret").read_text() == "secret"


def test_a_link_that_is_put_there_after_the_check_is_not_followed(
    tmp_path: Path, roots: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "secret.txt").write_text("secret")
    folder = tmp_path / "project" / "sub"
    folder.mkdir()

    def swap(path: str, _: object) -> None:
        folder.rmdir()
        folder.symlink_to(tmp_path)

    real = os.path.realpath(folder / "secret.txt")
    monkeypatch.setattr(files, "check_place", swap)
    monkeypatch.setattr(
        files.os.path, "realpath", lambda path: real if str(path).endswith("txt") else str(path)
    )
    with pytest.raises(RpcError):
        write_text(str(folder / "secret.txt"), roots, "changed")
    assert (tmp_path / "secret.txt").read_text() == "secret"


def test_only_regular_files_of_a_limited_size_are_read(
    tmp_path: Path, roots: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    os.mkfifo(tmp_path / "project" / "pipe")
    (tmp_path / "project" / "big").write_text("12345")
    monkeypatch.setattr(files, "MAX_FILE_BYTES", 4)
    for name in ("pipe", "big"):
        with pytest.raises(RpcError) as caught:
            read_text(str(tmp_path / "project" / name), roots, None, None)
        assert caught.value.code == INVALID_PARAMS
    with pytest.raises(RpcError) as caught:
        read_text(str(tmp_path / "project" / "none"), roots, None, None)
    assert caught.value.code == RESOURCE_NOT_FOUND
