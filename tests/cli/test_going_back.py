"""`farsteer sessions rewind|fork|export|log`, `import` and `usage` at a hub."""

from __future__ import annotations

import json
from pathlib import Path

from tests.cli.conftest import Here
from tests.support.stack import Stack


async def test_a_conversation_is_rewound_forked_and_exported(hub: Stack, here: Here) -> None:
    account = await hub.sign_in()
    session = await hub.create(account, permissionMode="yolo")
    await account.turn(session, "remember the dolphin")
    await account.turn(session, "write whales.txt hello")
    log = await here("sessions", "log", session[:8])
    numbers = {line.split(maxsplit=1)[1]: line.split()[0] for line in log.lines}
    assert [*numbers] == ["remember the dolphin", "write whales.txt hello"]

    forked = await here("sessions", "fork", session[:8], "--title", "branch")
    assert (await account.session(forked.out.strip()))["title"] == "branch"

    back = await here("sessions", "rewind", session[:8], numbers["write whales.txt hello"])
    assert back.out.strip() == "write whales.txt hello"
    assert "files: full" in back.err
    assert not (Path(hub.directory()) / "whales.txt").exists()
    assert [line.split(maxsplit=1)[1] for line in (await here("sessions", "log", session)).lines] == [
        "remember the dolphin"
    ]

    lines = (await here("sessions", "export", session[:8])).lines
    assert json.loads(lines[0])["session"]["id"] == session
    page = await here("sessions", "export", session[:8], "--format", "markdown")
    assert "remember the dolphin" in page.out

    for argv, said in (
        (["rewind", session], "farsteer sessions log"),
        (["rewind", session, "x"], "farsteer sessions log"),
        (["fork", session, "1", "2"], "farsteer sessions log"),
        (["rewind", session, "999"], "999"),
    ):
        refused = await here("sessions", *argv)
        assert refused.code in (1, 2), argv
        assert said in refused.err


async def test_what_was_spent_and_what_can_be_adopted(hub: Stack, here: Here) -> None:
    nothing = await here("usage")
    assert (nothing.code, nothing.out) == (0, "")
    account = await hub.sign_in()
    session = await hub.create(account)
    await account.turn(session, "remember the dolphin")

    by_session = await here("usage", "--by", "session")
    assert [line.split()[:2] for line in by_session.lines[1:]] == [[session[:8], "1"], ["all", "1"]]
    assert len((await here("usage", "--by", "turn", "--session", session[:8])).lines) == 3
    assert json.loads((await here("usage", "--json")).out)["total"]["turns"] == 1
    assert (await here("usage", "--since", "yesterday")).code == 2

    listed = await here("import", "demo")
    assert session[:8] in listed.lines[1]
    assert "remember the dolphin" in listed.lines[1]
    assert (await here("import", "demo", "--directory", "/nowhere")).out == ""
    assert (await here("import", "demo", "ffff")).code == 1
    native = json.loads((await here("import", "demo", "--json")).out)["nativeId"]
    again = await here("import", "demo", native)
    assert again.code == 1
    assert session in again.err
