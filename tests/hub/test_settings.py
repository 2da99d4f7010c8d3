"""`hub.toml`: limits and trusted proxies of a hub."""

from __future__ import annotations

from pathlib import Path

import pytest

from farsteer.core.errors import BadRequest
from farsteer.hub.settings import HubSettings, Limits, load_settings


def test_a_missing_file_gives_the_defaults(tmp_path: Path) -> None:
    assert load_settings(tmp_path) == HubSettings()


def test_the_file_changes_what_it_names(tmp_path: Path) -> None:
    (tmp_path / "hub.toml").write_text('trusted_proxies = ["10.0.0.0/8"]\n[limits]\nsessions = 5\n')
    settings = load_settings(tmp_path)
    assert settings.trusted_proxies == ("10.0.0.0/8",)
    assert settings.limits == Limits(sessions=5)


@pytest.mark.parametrize("text", ["[limits]\nsession = 5\n", "[limits]\nsessions = 0\n", "[limits\n"])
def test_a_mistake_in_the_file_is_named(tmp_path: Path, text: str) -> None:
    (tmp_path / "hub.toml").write_text(text)
    with pytest.raises(BadRequest, match=r"hub\.toml"):
        load_settings(tmp_path)
