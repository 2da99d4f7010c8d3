"""docs/acp.md is true: what it says to type works, and it names every method there is. So is what the registry gets."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import xml.etree.ElementTree as ET
from pathlib import Path

import pytest

from farsteer.faces.acp import agent
from tests.skew.releases import RELEASES
from tests.support.acp_schema import check

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "acp.md").read_text()
ENTRY = ROOT / "registry" / "farsteer"
COLOURS = re.compile(r"#[0-9a-fA-F]{3,8}\b|rgb|hsl|url\(")


def run(example: str, folder: Path) -> str:
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    done = subprocess.run(
        ["bash", "-euc", example], cwd=folder, env={**os.environ, "PATH": path}, capture_output=True, text=True,
        timeout=60,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.slow
def test_the_examples_run(home: Path, tmp_path: Path) -> None:
    configure, try_it = re.findall(r"^```sh\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)
    printed = run(configure, tmp_path)
    zed, rest = json.JSONDecoder().raw_decode(printed)
    assert zed["agent_servers"]["Farsteer"]["args"] == ["acp"]
    jetbrains, _ = json.JSONDecoder().raw_decode(printed[rest:].lstrip())
    assert jetbrains["agent_servers"]["Farsteer"]["args"] == ["acp", "--agent", "demo"]
    assert 'require("codecompanion")' in printed
    assert printed.splitlines()[-1].startswith("toad acp ")
    hello, listed = (json.loads(line) for line in run(try_it, tmp_path).splitlines())
    check("initialize", "Response", hello["result"])
    assert listed["result"] == {"sessions": []}


def test_every_method_is_on_the_page() -> None:
    methods = re.findall(
        r'^ +(?:\*\*.*)?"((?:session/)?[a-z_]+)": self\._', Path(agent.__file__).read_text(), re.MULTILINE
    )
    assert len(methods) > 10
    for method in (*methods, "initialize", "logout", "session/cancel"):
        assert f"`{method}`" in PAGE, method


def test_the_registrys_entry_is_as_the_registry_wants_it() -> None:
    entry = json.loads((ENTRY / "agent.json").read_text())
    assert entry["id"] == ENTRY.name
    assert re.fullmatch(r"[a-z][a-z0-9-]*", entry["id"])
    assert re.fullmatch(r"\d+\.\d+\.\d+", entry["version"])
    assert {"name", "description", "license"} <= {*entry}
    uvx = entry["distribution"]["uvx"]
    assert entry["version"] == RELEASES[-1].version
    assert uvx["package"] == f"farsteer=={RELEASES[-1].version}"
    assert [uvx["cmd"], *uvx["args"]] == ["farsteer", "acp"]


def test_the_registrys_icon_is_small_and_has_no_colour_of_its_own() -> None:
    text = (ENTRY / "icon.svg").read_text()
    icon = ET.fromstring(text)
    assert (icon.get("width"), icon.get("height"), icon.get("viewBox")) == ("16", "16", "0 0 16 16")
    assert not COLOURS.search(text)
    for element in icon.iter():
        for name in ("fill", "stroke"):
            assert element.get(name) in (None, "none", "currentColor")
