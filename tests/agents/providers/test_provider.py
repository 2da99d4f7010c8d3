from __future__ import annotations

from pathlib import Path

import pytest

from farsteer.agents.providers.provider import KeyHeader, Provider, load_provider, provider_names
from farsteer.core.errors import BadRequest

OWN = 'title = "Mine"\nbase_url = "http://127.0.0.1:8080"\nkey_variable = "MY_KEY"\nmodel = "mine-1"\n'


def add(home: Path, name: str, text: str) -> None:
    (home / "providers").mkdir(exist_ok=True)
    (home / "providers" / f"{name}.toml").write_text(text)


@pytest.mark.parametrize("name", ["glm", "zai", "minimax", "openrouter", "deepseek", "kimi"])
def test_each_built_in_provider_is_complete(tmp_path: Path, name: str) -> None:
    assert name in provider_names(tmp_path)
    provider = load_provider(tmp_path, name)
    assert provider.base_url.startswith("https://")
    assert provider.key_page is not None


def test_every_built_in_provider_is_tested(tmp_path: Path) -> None:
    assert provider_names(tmp_path) == ("deepseek", "glm", "kimi", "minimax", "openrouter", "zai")


def test_the_owner_adds_a_provider_and_replaces_a_built_in_one(tmp_path: Path) -> None:
    add(tmp_path, "mine", OWN)
    add(tmp_path, "glm", OWN)
    assert "mine" in provider_names(tmp_path)
    assert load_provider(tmp_path, "mine").model == "mine-1"
    assert load_provider(tmp_path, "glm").title == "Mine"


def test_a_file_whose_name_cannot_be_an_agent_is_no_provider(tmp_path: Path) -> None:
    add(tmp_path, "Not A Name", OWN)
    assert not any("Not" in name for name in provider_names(tmp_path))


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        (OWN.replace("http://127.0.0.1:8080", "ftp://host"), "base_url"),
        (OWN.replace("http://127.0.0.1:8080", "https://user:secret@host"), "base_url"),
        (OWN.replace("http://127.0.0.1:8080", "https://host/?key=x"), "base_url"),
        (OWN.replace("MY_KEY", "no name"), "key_variable"),
        (OWN.replace("model =", "modle ="), "modle"),
        ("title = ", "mine.toml"),
    ],
)
def test_an_invalid_file_is_refused_with_the_reason(tmp_path: Path, text: str, reason: str) -> None:
    add(tmp_path, "mine", text)
    with pytest.raises(BadRequest, match=reason):
        load_provider(tmp_path, "mine")


def provider(**fields: object) -> Provider:
    values = {"title": "Mine", "base_url": "https://host", "key_variable": "MY_KEY", "model": "big", **fields}
    return Provider(**values)


def test_the_environment_sets_every_model_that_claude_code_chooses_by_itself() -> None:
    environment = provider(small_model="small").environment("k")
    models = {name: value for name, value in environment.items() if name.endswith("_MODEL")}
    assert models == {
        "ANTHROPIC_MODEL": "big",
        "ANTHROPIC_DEFAULT_OPUS_MODEL": "big",
        "ANTHROPIC_DEFAULT_SONNET_MODEL": "big",
        "ANTHROPIC_DEFAULT_HAIKU_MODEL": "small",
        "CLAUDE_CODE_SUBAGENT_MODEL": "big",
    }
    assert environment["ANTHROPIC_BASE_URL"] == "https://host"


def test_a_chosen_model_is_used_for_background_work_too_if_the_provider_has_no_small_one() -> None:
    environment = provider().environment("k", "chosen")
    assert {value for name, value in environment.items() if name.endswith("_MODEL")} == {"chosen"}


@pytest.mark.parametrize(
    ("header", "token", "key"), [(KeyHeader.AUTHORIZATION, "k", ""), (KeyHeader.X_API_KEY, "", "k")]
)
def test_the_key_is_in_one_variable_and_the_other_is_empty(header: KeyHeader, token: str, key: str) -> None:
    environment = provider(key_header=header).environment("k")
    assert (environment["ANTHROPIC_AUTH_TOKEN"], environment["ANTHROPIC_API_KEY"]) == (token, key)


def test_settings_of_the_owner_do_not_come_before_the_environment() -> None:
    assert provider().environment("k")["CLAUDE_CODE_PROVIDER_MANAGED_BY_HOST"] == "1"
