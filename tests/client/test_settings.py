"""A setting comes from a flag, the environment, config.toml or the default, and the one table has every setting."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

from farsteer.agents.claude import cli as claude
from farsteer.agents.codex import cli as codex
from farsteer.agents.droid import cli as droid
from farsteer.agents.providers.provider import load_provider, provider_names
from farsteer.client.config import check_url, find_url
from farsteer.client.settings import SETTINGS, ConfigFile, find, find_flag, find_list, find_text, read_config
from farsteer.core.errors import BadRequest

SOURCE = Path(__file__).parents[2] / "src" / "farsteer"
OF_THE_SYSTEM = {"HOME", "PATH", "TERM", "COLUMNS", "LINES"}
INTERNAL = {"FARSTEER_LAUNCH", "FARSTEER_RUN_AS"}
"""Set by the runner itself for the processes that it starts."""
IN_PLACES = {"self.variable", "self._provider.key_variable", "variable", "key"}
"""Names that come from a declaration of an agent or a provider, or from the table itself."""


def constants(path: Path) -> dict[str, tuple[str, ...]]:
    """The texts, and tuples of texts, that a module assigns to names."""
    found: dict[str, tuple[str, ...]] = {}
    for node in ast.parse(path.read_text()).body:
        if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name):
            try:
                value = ast.literal_eval(node.value)
            except ValueError:
                continue
            found[node.targets[0].id] = (value,) if isinstance(value, str) else value
    return found


def is_environment(node: ast.expr) -> bool:
    return ast.unparse(node) in ("os.environ", "environment")


def names_read(path: Path) -> Iterator[str]:
    """What a module reads of the environment: names of variables, or expressions that are not constant."""
    known = constants(path)
    tree = ast.parse(path.read_text())
    loops = {
        ast.unparse(node.target): ast.unparse(node.iter)
        for node in ast.walk(tree)
        if isinstance(node, ast.comprehension)
    }
    for node in ast.walk(tree):
        if (
            isinstance(node, ast.Call)
            and isinstance(node.func, ast.Attribute)
            and node.func.attr in ("get", "pop", "setdefault")
            and is_environment(node.func.value)
        ):
            key = node.args[0]
        elif isinstance(node, ast.Subscript) and is_environment(node.value):
            key = node.slice
        else:
            continue
        if isinstance(key, ast.Constant):
            yield str(key.value)
        else:
            name = ast.unparse(key)
            yield from known.get(name) or known.get(loops.get(name, "")) or (name,)


def test_the_table_has_every_variable_that_the_source_reads_and_no_other(home: Path) -> None:
    read = {name for path in SOURCE.rglob("*.py") for name in names_read(path)}
    read -= OF_THE_SYSTEM | INTERNAL | IN_PLACES | {"LAUNCH_VARIABLE", "RUN_AS_VARIABLE"}
    read |= {program.variable for program in (claude.PROGRAM, codex.PROGRAM, droid.PROGRAM)}
    providers = {load_provider(home, name).key_variable for name in provider_names(home)}
    table = [variable for setting in SETTINGS for variable in setting.variables]
    assert len(table) == len(set(table))
    # The table's own variables are read through it.
    through_table = {"FARSTEER_HUB", "FARSTEER_ALLOW_INSECURE", "FARSTEER_LOG_LEVEL", "FARSTEER_DEBUG"}
    assert read - providers | through_table == {*table}


def test_config_toml_has_settings_of_the_table_and_no_secret() -> None:
    by_name = {setting.name: setting for setting in SETTINGS}
    for name in ConfigFile.__struct_fields__:
        assert not by_name[name].secret
    assert all(setting.flag or setting.variables or setting.in_file for setting in SETTINGS)


def test_a_flag_wins_over_the_environment_over_the_file_over_the_default(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert find("log_level").source == "default"
    (home / "config.toml").write_text('log_level = "error"\nallowed_host = ["a"]\n')
    assert (find("log_level").value, find("log_level").source) == ("error", "config.toml")
    monkeypatch.setenv("FARSTEER_LOG_LEVEL", "info")
    assert (find("log_level").value, find("log_level").source) == ("info", "$FARSTEER_LOG_LEVEL")
    assert (find("log_level", "debug").value, find("log_level", "debug").source) == ("debug", "--log-level")
    assert find_list("allowed_host") == ("a",)
    assert find_list("allowed_host", ["b"]) == ("b",)


def test_config_toml_names_the_hub(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (home / "config.toml").write_text('hub = "http://hub.example"\nallow_insecure = true\n')
    assert find_text("hub") == find_url() == "http://hub.example"
    assert find_flag("allow_insecure")
    monkeypatch.setenv("FARSTEER_ALLOW_INSECURE", "0")
    with pytest.raises(BadRequest, match="unencrypted"):
        check_url("http://hub.example")


@pytest.mark.parametrize(
    "content",
    ["hub = 1", "unknown = 1", 'log_level = "loud"', "port = 70000", "not toml", 'token = "secret"'],
)
def test_an_invalid_file_is_named(home: Path, content: str) -> None:
    (home / "config.toml").write_text(content)
    with pytest.raises(BadRequest, match=r"config\.toml"):
        read_config(home)


def test_an_invalid_level_in_the_environment_is_named(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FARSTEER_LOG_LEVEL", "loud")
    with pytest.raises(BadRequest, match=r"FARSTEER_LOG_LEVEL.*debug, info, warning, error"):
        find("log_level")


def test_a_file_that_is_a_link_is_not_read(home: Path, tmp_path: Path) -> None:
    (tmp_path / "elsewhere.toml").write_text('hub = "https://evil.example"')
    (home / "config.toml").symlink_to(tmp_path / "elsewhere.toml")
    with pytest.raises(BadRequest, match=r"cannot read .*config\.toml"):
        find_url()
