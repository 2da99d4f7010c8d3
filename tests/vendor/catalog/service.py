"""`farsteer up` with the CLI: approvals over REST, a restart of all processes, a kill of the agent."""

from __future__ import annotations

import signal

from tests.support.eventually import eventually
from tests.support.stack import Account
from tests.vendor.catalog.fixtures import STEP_TIMEOUT
from tests.vendor.up import Up, approval, create, idle, remembered, texts, until


async def allow(account: Account, session: str) -> None:
    asked = await approval(account, session)
    await account.post_json(f"/api/sessions/{session}/permissions/{asked['id']}/approve", {})


class Service:
    async def test_a_conversation_with_an_approval_survives_a_restart_and_a_kill(self, up: Up) -> None:
        async with up.started() as account:
            session = await create(account, up)
            await account.say(session, "[[bash:sh -c 'touch made.txt']][[say:made it]]")
            await approval(account, session)
            assert not (up.desk / "made.txt").exists()
            await allow(account, session)
            await idle(account, session)
            assert (up.desk / "made.txt").exists()
            assert await texts(account, session) == ["made it"]
            assert len(up.agents()) == 1
            native_id = (await account.session(session))["nativeId"]
            await account.post_json(f"/api/sessions/{session}/stop")
            await until(account, session, lambda found: found["status"] == "stopped")
            assert up.agents() == []
        async with up.started() as account:
            await account.post_json(f"/api/sessions/{session}/resume")
            assert "made it" in await remembered(account, session)
            assert (await account.session(session))["nativeId"] == native_id
            await account.say(session, "[[new]][[bash:sh -c 'touch running; sleep 300']]")
            await allow(account, session)
            await eventually((up.desk / "running").exists, STEP_TIMEOUT)
            for process in up.agents():
                process.send_signal(signal.SIGKILL)

            async def crashed() -> bool:
                log = [entry["content"] for entry in await account.messages(session, limit=200)]
                return [one["reason"] for one in log if one["kind"] == "turn_end"][-1] == "crashed"

            await eventually(crashed, STEP_TIMEOUT)
            assert "made it" in await remembered(account, session)
        assert up.agents() == []
