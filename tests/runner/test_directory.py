from __future__ import annotations

from pathlib import Path

import pytest

from farsteer.core.errors import ErrorCode, Unprocessable
from farsteer.runner.directory import check_directory


def refusal(asked: str, roots: tuple[str, ...] = ()) -> ErrorCode:
    with pytest.raises(Unprocessable) as refused:
        check_directory(asked, roots)
    return refused.value.code


def test_a_directory_is_given_back_as_its_real_path(tmp_path: Path) -> None:
    real = tmp_path / "real"
    real.mkdir()
    (tmp_path / "link").symlink_to(real)
    assert check_directory(str(tmp_path / "link"), ()) == real
    assert check_directory(str(real / ".." / "real"), (str(tmp_path),)) == real


def test_what_is_no_directory_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x")
    assert refusal(str(tmp_path / "missing")) is ErrorCode.DIRECTORY_MISSING
    assert refusal(str(tmp_path / "file")) is ErrorCode.DIRECTORY_MISSING
    assert refusal("relative/path") is ErrorCode.DIRECTORY_NOT_ALLOWED
    assert refusal("-C") is ErrorCode.DIRECTORY_NOT_ALLOWED
    assert refusal(f"{tmp_path}\0") is ErrorCode.DIRECTORY_NOT_ALLOWED


def test_no_way_leads_out_of_the_roots(tmp_path: Path) -> None:
    inside, outside = tmp_path / "inside", tmp_path / "inside-not"
    inside.mkdir()
    outside.mkdir()
    (inside / "way-out").symlink_to(outside)
    roots = (str(inside),)
    assert check_directory(str(inside), roots) == inside
    assert refusal(str(outside), roots) is ErrorCode.DIRECTORY_NOT_ALLOWED
    assert refusal(str(inside / "way-out"), roots) is ErrorCode.DIRECTORY_NOT_ALLOWED
    assert refusal(str(inside / ".." / "inside-not"), roots) is ErrorCode.DIRECTORY_NOT_ALLOWED
