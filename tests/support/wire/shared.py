"""Scenarios that are recorded with every agent."""

from __future__ import annotations

from farsteer.agents.base import DeltaEmitted
from farsteer.core.events import AgentMessage, ToolCall
from farsteer.core.modes import PermissionMode
from tests.support.wire.stage import Stage


async def plain_turn(stage: Stage) -> None:
    agent = await stage.launch()
    await agent.run_turn("[[think:let me see]][[say:hello dear reader]]")
    await agent.run_turn("and again")


async def edits_accepted_by_mode(stage: Stage) -> None:
    agent = await stage.launch_in(PermissionMode.ACCEPT_EDITS)
    await agent.run_turn("[[write:made.txt:hello]][[say:made it]]")


async def denied_in_read_only_mode(stage: Stage) -> None:
    agent = await stage.launch_in(PermissionMode.READ_ONLY)
    await agent.run_turn("[[write:made.txt:hello]][[say:well then]]")


async def interrupt_in_stream(stage: Stage) -> None:
    agent = await stage.launch()
    await agent.send("[[say:so far ]][[hang]]")
    await agent.wait_until(lambda: bool(agent.outputs_of(DeltaEmitted)))
    await stage.interrupt(agent)
    await agent.run_turn("[[say:again]]")


async def interrupt_in_command(stage: Stage) -> None:
    agent = await stage.launch_in(PermissionMode.YOLO)
    await agent.send("[[bash:sleep 60]][[say:never said]]")
    await agent.wait_until(lambda: bool(agent.events_of(ToolCall)))
    await stage.interrupt(agent)


async def error_400(stage: Stage) -> None:
    await (await stage.launch()).run_turn("[[error:400]]")


async def error_401(stage: Stage) -> None:
    await (await stage.launch()).run_turn("[[error:401]]")


async def error_429(stage: Stage) -> None:
    await (await stage.launch()).run_turn("[[error:429]]")


async def error_500(stage: Stage) -> None:
    agent = await stage.launch()
    await agent.run_turn("[[error:500]]")
    await agent.run_turn("[[new]][[say:well again]]")


async def steer_overtaken_by_interrupt(stage: Stage) -> None:
    agent = await stage.launch()
    await agent.send("[[say:first]][[hang]]")
    await agent.wait_until(lambda: bool(agent.outputs_of(DeltaEmitted)))
    await stage.steer(agent, "never seen")
    await stage.interrupt(agent)


async def resume(stage: Stage) -> None:
    agent = await stage.launch()
    await agent.run_turn("remember apricot")
    resumed = await stage.harness.relaunch(agent)
    await resumed.run_turn("[[history]]")


async def fork(stage: Stage) -> None:
    agent = await stage.launch()
    await agent.run_turn("remember apricot")
    await agent.run_turn("remember walnut")
    anchor = agent.events_of(AgentMessage)[0].anchor
    await agent.launch.stop()
    forked = await stage.launch(stage.harness.plan(fork_of=agent.launch.native_id, cut_at=anchor))
    await forked.run_turn("[[history]]")


SHARED = (
    plain_turn,
    edits_accepted_by_mode,
    denied_in_read_only_mode,
    interrupt_in_stream,
    interrupt_in_command,
    error_400,
    error_401,
    error_429,
    error_500,
    steer_overtaken_by_interrupt,
    resume,
    fork,
)
