"""The page is served from the package: whole, compressed, small, and with headers that keep scripts of others out."""

from __future__ import annotations

import gzip
import json
import re
import subprocess
from collections.abc import AsyncIterator
from pathlib import Path

import httpx
import pytest
from starlette.types import Message

from farsteer.faces.page.app import CSP, NOT_BUILT, PageApp
from tests.support.node import NODE
from web.tools.page_types import TYPES, generate

ROOT = Path(__file__).parents[2]
WEB = ROOT / "web"
BUILT = ROOT / "src" / "farsteer" / "faces" / "page" / "built"
MODULE_LINES = 500
FIRST_LOAD_BYTES = 150 * 1024


@pytest.fixture
async def client(tmp_path: Path) -> AsyncIterator[httpx.AsyncClient]:
    (tmp_path / "assets").mkdir()
    (tmp_path / "index.html").write_text("<!doctype html>")
    (tmp_path / "assets" / "a-1.js").write_text("run()")
    (tmp_path / "assets" / "a-1.js.gz").write_bytes(gzip.compress(b"run()"))
    (tmp_path / "sources.txt").write_text("not for browsers")
    transport = httpx.ASGITransport(app=PageApp(tmp_path))
    async with httpx.AsyncClient(transport=transport, base_url="http://hub") as client:
        yield client


async def test_the_first_file_is_checked_and_the_others_are_kept(client: httpx.AsyncClient) -> None:
    index = await client.get("/")
    assert (index.status_code, index.text) == (200, "<!doctype html>")
    assert index.headers["cache-control"] == "no-cache"
    asset = await client.get("/assets/a-1.js")
    assert (asset.text, asset.headers["content-encoding"]) == ("run()", "gzip")
    assert "immutable" in asset.headers["cache-control"]
    plain = await client.get("/assets/a-1.js", headers={"accept-encoding": "identity"})
    assert plain.text == "run()"
    assert "content-encoding" not in plain.headers
    assert plain.headers["vary"] == "accept-encoding"
    head = await client.head("/assets/a-1.js", headers={"accept-encoding": "identity"})
    assert (head.content, head.headers["content-length"]) == (b"", "5")


@pytest.mark.parametrize(
    "path", ["", "*", "//", "/index.html", "/sources.txt", "/assets/", "/assets/../index.html", "/a\0"]
)
async def test_any_other_path_is_not_found(tmp_path: Path, path: str) -> None:
    (tmp_path / "assets").mkdir()
    (tmp_path / "index.html").write_text("<!doctype html>")
    (tmp_path / "sources.txt").write_text("not for browsers")
    sent: list[Message] = []

    async def send(message: Message) -> None:
        sent.append(message)

    scope = {"type": "http", "method": "GET", "path": path, "headers": []}
    await PageApp(tmp_path)(scope, _receive, send)
    assert sent[0]["status"] == 404


async def _receive() -> Message:
    return {"type": "http.request"}


async def test_every_answer_keeps_other_scripts_and_frames_out(client: httpx.AsyncClient) -> None:
    for path in ("/", "/assets/a-1.js"):
        headers = (await client.get(path)).headers
        assert headers["content-security-policy"] == CSP
        assert headers["x-content-type-options"] == "nosniff"
        assert headers["referrer-policy"] == "no-referrer"
    assert "unsafe" not in CSP
    for rule in ("script-src 'self'", "frame-ancestors 'none'", "require-trusted-types-for 'script'"):
        assert rule in CSP.split("; ")


@pytest.mark.parametrize(
    "path",
    ["/assets/", "/assets/../index.html", "/assets/..%2findex.html", "/assets/a-1.js.gz", "/sources.txt",
     "/index.html", "/assets/none.js", "/assets//etc/passwd", "/assets/a-1.js/", "/other"],
)  # fmt: skip
async def test_no_other_file_is_served(client: httpx.AsyncClient, path: str) -> None:
    answer = await client.get(path)
    assert (answer.status_code, answer.json()["error"]["code"]) == (404, "not_found")


async def test_the_page_is_only_read(client: httpx.AsyncClient) -> None:
    answer = await client.post("/")
    assert (answer.status_code, answer.headers["allow"]) == (405, "GET, HEAD")


async def test_a_hub_without_its_page_says_how_to_get_it(tmp_path: Path) -> None:
    transport = httpx.ASGITransport(app=PageApp(tmp_path))
    async with httpx.AsyncClient(transport=transport, base_url="http://hub") as client:
        answer = await client.get("/")
    assert (answer.status_code, answer.content) == (200, NOT_BUILT)
    assert answer.headers["content-type"].startswith("text/plain")
    assert b"make setup" in NOT_BUILT


def test_the_first_load_is_small_and_has_no_script_of_its_own() -> None:
    index = (BUILT / "index.html").read_text()
    loaded = re.findall(r'(?:src|href)="/([^"]+)"', index)
    assert any(name.endswith(".js") for name in loaded)
    size = sum((BUILT / f"{name}.gz").stat().st_size for name in ["index.html", *loaded])
    assert size < FIRST_LOAD_BYTES, f"{size} bytes"
    assert "<script>" not in index
    assert "style=" not in index
    assert not re.search(r'"https?://', index)


def test_its_modules_stay_small_and_know_their_types() -> None:
    sources = [
        path for path in (WEB / "src").rglob("*") if path.suffix in (".ts", ".tsx", ".css") and path != TYPES
    ]
    large = [
        f"{path.name}: {size}"
        for path in sources
        if (size := len(path.read_text().splitlines())) > MODULE_LINES
    ]
    assert large == []
    untyped = [
        path.name for path in sources if re.search(r"\bas any\b|: any\b|<any>|@ts-ignore", path.read_text())
    ]
    assert untyped == []


def test_its_texts_are_in_one_place_and_in_use() -> None:
    keys = re.findall(r"(\w+): \"", (WEB / "src/texts/en.ts").read_text())
    code = "\n".join(
        path.read_text()
        for path in (WEB / "src").rglob("*.ts*")
        if path.name not in ("en.ts", "zh.ts", "schema.ts")
    )
    made = ("reason_", "message_", "outcome_", "effort_", "cap_")
    unused = [key for key in keys if not key.startswith(made) and not re.search(rf"\b{key}\b", code)]
    assert unused == []


def test_its_packages_are_locked_by_content_not_by_address() -> None:
    packages = {
        name: entry
        for name, entry in json.loads((WEB / "package-lock.json").read_text())["packages"].items()
        if name
    }
    assert [name for name, entry in packages.items() if "integrity" not in entry or "resolved" in entry] == []


@pytest.mark.slow
def test_its_types_are_those_of_the_api() -> None:
    assert TYPES.read_text() == generate(), "run make web-types"


@pytest.mark.slow
def test_its_code_has_the_types_it_says() -> None:
    compiler = WEB / "node_modules" / "typescript" / "bin" / "tsc"
    done = subprocess.run([NODE, compiler, "--noEmit"], cwd=WEB, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stdout


@pytest.mark.slow
def test_its_model_follows_the_log() -> None:
    """The tests of the parts that draw nothing: the conversation, the outbox, colours, diffs, answers."""
    done = subprocess.run(
        [NODE, "--test", "src/**/*.test.ts"], cwd=WEB, capture_output=True, text=True, timeout=60
    )
    assert done.returncode == 0, done.stdout[-4000:]
