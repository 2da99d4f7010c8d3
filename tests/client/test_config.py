"""The hub's address and the access token are found in a fixed order."""

import json
import os
from pathlib import Path

import pytest

from farsteer.client.config import DEFAULT_URL, check_url, find_token, find_url, is_loopback, running_hub
from farsteer.core.errors import BadRequest, Unauthorized

HUB = "http://127.0.0.1:4000"


def write_hub(home: Path, url: str, pid: int) -> None:
    (home / "hub.json").write_text(json.dumps({"url": url, "pid": pid}))


def test_url_as_given_then_environment_then_running_hub_then_default(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert find_url() == DEFAULT_URL
    write_hub(home, "http://127.0.0.1:4000", os.getpid())
    assert find_url() == "http://127.0.0.1:4000"
    monkeypatch.setenv("FARSTEER_HUB", "https://hub.example.com/")
    assert find_url() == "https://hub.example.com"
    assert find_url("http://localhost:1/") == "http://localhost:1"


@pytest.mark.parametrize("content", ["", "[]", '{"url": 1, "pid": 1}', '{"url": "http://x", "pid": -1}'])
def test_a_broken_hub_file_is_ignored(home: Path, content: str) -> None:
    (home / "hub.json").write_text(content)
    assert running_hub(home) is None


@pytest.mark.slow
def test_the_file_of_a_dead_hub_is_ignored(home: Path) -> None:
    pid = os.fork()
    if pid == 0:
        os._exit(0)
    os.waitpid(pid, 0)
    write_hub(home, "http://127.0.0.1:4000", pid)
    assert running_hub(home) is None
    assert find_url() == DEFAULT_URL


def test_token_as_given_then_environment_then_login_then_file(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_hub(home, HUB, os.getpid())
    with pytest.raises(Unauthorized, match="CLI_API_TOKEN"):
        find_token(HUB)
    (home / "token").write_text("from-file\n")
    assert find_token(HUB) == "from-file"
    (home / "login.json").write_text(json.dumps({"url": HUB, "token": "from-login"}))
    assert find_token(HUB) == "from-login"
    monkeypatch.setenv("CLI_API_TOKEN", "from-environment")
    assert find_token(HUB) == "from-environment"
    assert find_token(HUB, "given") == "given"


@pytest.mark.parametrize(
    "elsewhere",
    [
        "https://evil.example", "http://127.0.0.1:4001", "http://[::1]:4000", "https://127.0.0.1:4000",
        "http://127.0.0.1:4000/prefix", "http://127.0.0.1:4000@evil.example",
    ],
)  # fmt: skip
def test_the_owner_token_of_a_home_goes_to_no_other_hub(
    home: Path, monkeypatch: pytest.MonkeyPatch, elsewhere: str
) -> None:
    (home / "token").write_text("the-owner-token-of-this-home")
    (home / "login.json").write_text(json.dumps({"url": "https://team.example", "token": "of-the-team"}))
    write_hub(home, HUB, os.getpid())
    monkeypatch.setenv("FARSTEER_HUB", elsewhere)
    monkeypatch.setenv("FARSTEER_ALLOW_INSECURE", "1")
    with pytest.raises(Unauthorized, match="farsteer login --hub") as refused:
        find_token(find_url())
    assert "the-owner-token" not in refused.value.message
    assert find_token("https://team.example") == "of-the-team"


def test_the_owner_token_is_not_sent_to_the_address_of_a_hub_that_does_not_run(home: Path) -> None:
    """Another user's program may listen there now."""
    (home / "token").write_text("the-owner-token-of-this-home")
    with pytest.raises(Unauthorized, match="farsteer login --hub"):
        find_token(find_url())


def test_a_process_of_another_user_is_not_the_hub_of_this_home(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def kill(pid: int, signal: int) -> None:
        raise PermissionError

    monkeypatch.setattr(os, "kill", kill)
    write_hub(home, HUB, os.getpid())
    assert running_hub(home) is None


@pytest.mark.parametrize(
    "given", ["http://localhost:4000", "http://LOCALHOST:4000/", "http://127.0.0.1:4000/"]
)
def test_other_names_of_the_running_hub_mean_its_own_address(home: Path, given: str) -> None:
    (home / "token").write_text("the-owner-token-of-this-home")
    write_hub(home, HUB, os.getpid())
    assert find_url(given) == HUB
    assert find_token(find_url(given)) == "the-owner-token-of-this-home"


def test_files_behind_symbolic_links_are_not_believed(home: Path) -> None:
    url = "http://127.0.0.1:4000"
    write_hub(home, url, os.getpid())
    (home / "token.target").write_text("planted")
    (home / "token").symlink_to(home / "token.target")
    with pytest.raises(Unauthorized, match="cannot read the token file"):
        find_token(url)
    (home / "hub.json").rename(home / "hub.json.target")
    (home / "hub.json").symlink_to(home / "hub.json.target")
    assert running_hub(home) is None


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a file to another user")
def test_files_of_another_user_are_not_believed(home: Path) -> None:
    url = "http://127.0.0.1:4000"
    write_hub(home, url, os.getpid())
    (home / "token").write_text("planted")
    os.chown(home / "token", 65534, 65534)
    with pytest.raises(Unauthorized, match="belongs to another user"):
        find_token(url)
    os.chown(home / "hub.json", 65534, 65534)
    assert running_hub(home) is None


@pytest.mark.parametrize(
    ("url", "loopback"),
    [
        ("http://127.0.0.1:3006", True),
        ("http://127.8.8.8", True),
        ("http://[::1]:3006", True),
        ("http://localhost:3006", True),
        ("http://127.example.com", False),
        ("http://localhost.example.com", False),
        ("http://10.0.0.1", False),
    ],
)
def test_loopback_is_decided_by_the_address(url: str, loopback: bool) -> None:
    assert is_loopback(url) is loopback


def test_no_token_is_sent_unencrypted_to_another_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("FARSTEER_ALLOW_INSECURE", raising=False)
    with pytest.raises(BadRequest, match="FARSTEER_ALLOW_INSECURE"):
        check_url("http://hub.example.com:3006")
    assert check_url("https://hub.example.com") == "https://hub.example.com"
    assert check_url("http://hub:3006", allow_insecure=True) == "http://hub:3006"
    monkeypatch.setenv("FARSTEER_ALLOW_INSECURE", "1")
    assert check_url("http://hub:3006") == "http://hub:3006"


@pytest.mark.parametrize(
    "url", ["", "hub", "ftp://hub", "http://", "http://hub:port", "http://[::1", "localhost:3006"]
)
def test_an_invalid_address_is_refused(url: str) -> None:
    with pytest.raises(BadRequest, match="not a hub address"):
        check_url(url)
