from __future__ import annotations

from farsteer.agents.process.environment import scrub_environment

MACHINE = {
    "PATH": "/bin", "HOME": "/h", "LC_ALL": "C", "XDG_CONFIG_HOME": "/x", "https_proxy": "http://p",
    "SSL_CERT_FILE": "/c", "AWS_SECRET_ACCESS_KEY": "s", "CLI_API_TOKEN": "t", "FARSTEER_HOME": "/f",
    "PYTHONPATH": "/p", "ANTHROPIC_API_KEY": "k", "LD_PRELOAD": "/l",
}  # fmt: skip


def test_only_basic_variables_pass_by_default() -> None:
    assert sorted(scrub_environment(MACHINE)) == [
        "HOME", "LC_ALL", "PATH", "SSL_CERT_FILE", "XDG_CONFIG_HOME", "https_proxy",
    ]  # fmt: skip


def test_an_adapter_can_allow_more_variables_by_name_or_prefix() -> None:
    assert scrub_environment(MACHINE, ["ANTHROPIC_*"])["ANTHROPIC_API_KEY"] == "k"
    assert "AWS_SECRET_ACCESS_KEY" not in scrub_environment(MACHINE, ["AWS_SECRET"])


def test_private_variables_never_pass_even_if_they_are_allowed() -> None:
    named = scrub_environment(
        MACHINE, ["CLI_API_TOKEN", "FARSTEER_*", "*"], {"FARSTEER_TOKEN": "t", "CLI_API_TOKEN": "t"}
    )
    assert not [name for name in named if name.startswith("FARSTEER") or name == "CLI_API_TOKEN"]


def test_extra_variables_win_over_the_machine() -> None:
    assert scrub_environment(MACHINE, extra={"PATH": "/mine", "NEW": "1"})["PATH"] == "/mine"
