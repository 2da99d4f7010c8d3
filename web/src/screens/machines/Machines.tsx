import { useState } from "preact/hooks";
import type { Machine } from "../../api/types.ts";
import { machines, sessions } from "../../state/sessions.ts";
import { ago, t } from "../../texts/index.ts";
import { Icon } from "../../ui/icons.tsx";
import { AgentAbilities } from "./AgentAbilities.tsx";

/** The machines, whether they are connected, and the agents that each has or could have. */
export function Machines() {
  const all = [...machines.value.values()].sort((one, other) => Number(other.active) - Number(one.active) || other.activeAt - one.activeAt);
  return (
    <div class="page narrow">
      <header class="page-head"><h1>{t("machines")}</h1></header>
      {!all.length && <div class="empty"><Icon name="machine" size={40} /><h2>{t("noMachines")}</h2><p>{t("noMachineLead").replaceAll("`", "")}</p></div>}
      <div class="stack">{all.map((machine) => <MachineCard key={machine.id} machine={machine} />)}</div>
    </div>
  );
}

function MachineCard({ machine }: { machine: Machine }) {
  const [showsAll, setShowsAll] = useState(false);
  const count = sessions.value.filter((session) => session.machineId === machine.id).length;
  const missing = machine.agents.filter((agent) => !agent.available);
  const shown = showsAll ? machine.agents : machine.agents.filter((agent) => agent.available);
  return (
    <section class="card machine" aria-label={machine.name ?? machine.host}>
      <header>
        <span class={machine.active ? "dot idle" : "dot off"} aria-hidden="true" />
        <h2><bdi>{machine.name ?? machine.host}</bdi></h2>
        <span class="muted">{machine.active ? t("connected") : `${t("notConnected")}, ${t("lastSeen", { time: ago(machine.activeAt) })}`}</span>
      </header>
      <p class="muted small facts"><span>{machine.platform}</span><span>Farsteer {machine.version}</span><span>{t("sessionsCount", { n: count })}</span>
        {machine.foreignSessions ? <span>{t("foreign", { n: machine.foreignSessions })}</span> : null}</p>
      {machine.problem && <p class="problem" role="alert">{machine.problem}</p>}
      {machine.conflict && <p class="problem" role="alert">{machine.conflict.message}</p>}
      <ul class="agent-rows">
        {shown.map((agent) => (
          <li key={agent.name}>
            <div><b>{agent.title}</b> <span class="muted small">{agent.version ?? (agent.available ? "" : t("notAvailable"))}</span></div>
            {agent.available ? <AgentAbilities capabilities={agent.capabilities} /> : <p class="muted small">{agent.reason}</p>}
            {!agent.available && agent.install && <p class="small">{t("toInstall")}: <code>{agent.install}</code></p>}
            {agent.login && <p class="small">{t("toLogIn")}: <code>{agent.login}</code></p>}
            {agent.warning && <p class="muted small">{agent.warning}</p>}
          </li>
        ))}
      </ul>
      {missing.length > 0 && <button type="button" class="link" aria-expanded={showsAll} onClick={() => setShowsAll(!showsAll)}>{showsAll ? t("hideMissing") : t("showMissing", { n: missing.length })}</button>}
    </section>
  );
}
