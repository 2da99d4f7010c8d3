import { useMemo, useState } from "preact/hooks";
import type { Session } from "../../api/types.ts";
import { cleanText } from "../../model/ansi.ts";
import { sessionAddress } from "../../state/router.ts";
import { approvals, isRunning, loading, machines, needOf, reload, sessions } from "../../state/sessions.ts";
import { ago, shortNumber, t } from "../../texts/index.ts";
import { Icon } from "../../ui/icons.tsx";
import { Windowed } from "../../ui/windowed.tsx";
import { StatusDot, shortPath, statusText, titleOf, toneOf } from "./status.tsx";

const ROW = 76;

/** All sessions: what needs a person, what runs, and the rest by time. */
export function Home() {
  const [search, setSearch] = useState("");
  const [machine, setMachine] = useState("");
  const [agent, setAgent] = useState("");
  const all = sessions.value;
  const agents = useMemo(() => [...new Set(all.map((session) => session.agent))].sort(), [all]);
  const found = useMemo(() => all.filter((session) => matches(session, search, machine, agent)), [all, search, machine, agent]);
  const groups = [
    { title: t("needsYou"), items: found.filter((session) => needOf(session)) },
    { title: t("running"), items: found.filter((session) => !needOf(session) && isRunning(session)) },
    { title: t("recent"), items: found.filter((session) => !needOf(session) && !isRunning(session)) },
  ].filter((group) => group.items.length);
  const isEmpty = loading.value === "ready" && all.length === 0;
  return (
    <div class="page">
      <header class="page-head">
        <h1>{t("home")}</h1>
        <a class="button primary phone-only" href="#/new"><Icon name="plus" size={17} />{t("newSession")}</a>
      </header>
      {loading.value === "failed" && <p class="problem" role="alert">{t("listFailed")} <button type="button" class="link" onClick={() => void reload()}>{t("retry")}</button></p>}
      {loading.value === "loading" && all.length === 0 && <div class="skeletons" aria-label={t("loading")} role="status">{[1, 2, 3, 4].map((n) => <div key={n} class="skeleton" />)}</div>}
      {isEmpty && (
        <div class="empty">
          <Icon name="spark" size={40} />
          <h2>{t(machines.value.size ? "noSessions" : "noMachine")}</h2>
          <p>{t(machines.value.size ? "noSessionsLead" : "noMachineLead").replaceAll("`", "")}</p>
          {machines.value.size > 0 && <a class="button primary" href="#/new">{t("newSession")}</a>}
        </div>
      )}
      {all.length > 0 && (
        <div class="filters" role="search">
          <label class="search"><Icon name="search" size={16} /><input type="search" value={search} placeholder={t("searchSessions")} aria-label={t("searchSessions")} onInput={(event) => setSearch(event.currentTarget.value)} /></label>
          {machines.value.size > 1 && (
            <select aria-label={t("machine")} value={machine} onChange={(event) => setMachine(event.currentTarget.value)}>
              <option value="">{t("allMachines")}</option>
              {[...machines.value.values()].map((one) => <option key={one.id} value={one.id}>{one.name ?? one.host}</option>)}
            </select>
          )}
          {agents.length > 1 && (
            <select aria-label={t("agent")} value={agent} onChange={(event) => setAgent(event.currentTarget.value)}>
              <option value="">{t("allAgents")}</option>
              {agents.map((name) => <option key={name}>{name}</option>)}
            </select>
          )}
        </div>
      )}
      {all.length > 0 && !groups.length && <p class="muted center">{t("noMatch")}</p>}
      {groups.map((group) => (
        <section key={group.title}>
          <h2 class="group">{group.title} <span class="count quiet-count">{group.items.length}</span></h2>
          <Windowed items={group.items} rowHeight={ROW} keyOf={(session) => session.id} label={group.title} row={(session) => <Row session={session} />} />
        </section>
      ))}
    </div>
  );
}

function matches(session: Session, search: string, machine: string, agent: string): boolean {
  if ((machine && session.machineId !== machine) || (agent && session.agent !== agent)) return false;
  const words = search.toLowerCase().split(/\s+/).filter(Boolean);
  if (!words.length) return true;
  const host = machines.value.get(session.machineId);
  const text = [session.title, session.lastMessage, session.directory, session.agent, session.status, host?.name, host?.host, session.worktree?.branch]
    .join("\n").toLowerCase();
  return words.every((word) => text.includes(word));
}

function Row({ session }: { session: Session }) {
  const host = machines.value.get(session.machineId);
  const asked = approvals.value.find((open) => open.sessionId === session.id)?.approval.title ?? session.approvals[0]?.title;
  const line = asked ?? session.error ?? (session.title ? session.lastMessage : null) ?? "";
  const used = (session.usage.inputTokens ?? 0) + (session.usage.outputTokens ?? 0);
  return (
    <a class={`row ${toneOf(session)}`} href={sessionAddress(session.id)} data-session={session.id}>
      <StatusDot session={session} />
      <span class="row-main">
        <span class="row-title" dir="auto">{cleanText(titleOf(session))}</span>
        {line && <span class={asked ? "row-line asked" : session.error ? "row-line bad" : "row-line"} dir="auto">{cleanText(line)}</span>}
        <span class="row-facts">
          <span>{session.agent}</span>
          <span title={session.directory}><bdi>{shortPath(session.directory)}</bdi></span>
          {session.worktree?.branch && <span><bdi>{session.worktree.branch}</bdi></span>}
          {machines.value.size > 1 && <span>{host?.name ?? host?.host}</span>}
          {used > 0 && <span class="wide-only">{t("tokens", { n: shortNumber(used) })}</span>}
        </span>
      </span>
      <span class="row-side"><time>{ago(session.updatedAt)}</time><span class={`state ${toneOf(session)}`}>{statusText(session)}</span></span>
    </a>
  );
}
