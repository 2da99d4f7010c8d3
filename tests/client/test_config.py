"""The hub's address and the access token are found in a fixed order."""

import json
import os
from pathlib import Path

import pytest

from farsteer.client.config import DEFAULT_URL, check_url, find_token, find_url, is_loopback, running_hub
from farsteer.core.errors import BadRequest, Unauthorized


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


def test_token_as_given_then_environment_then_file(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(Unauthorized, match="CLI_API_TOKEN"):
        find_token()
    (home / "token").write_text("from-file\n")
    assert find_token() == "from-file"
    monkeypatch.setenv("CLI_API_TOKEN", "from-environment")
    assert find_token() == "from-environment"
    assert find_token("given") == "given"


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
