import { useEffect, useMemo, useRef, useState } from "preact/hooks";
import { call } from "../../api/http.ts";
import { ApiError } from "../../api/request.ts";
import { EFFORTS, PERMISSION_MODES, type PermissionMode, type Schemas } from "../../api/types.ts";
import { newId } from "../../model/ids.ts";
import { cleanText } from "../../model/ansi.ts";
import { go, sessionAddress } from "../../state/router.ts";
import { machines, sessions } from "../../state/sessions.ts";
import { messageOf } from "../../state/toasts.ts";
import { t, type TextKey } from "../../texts/index.ts";
import { Icon } from "../../ui/icons.tsx";
import { AgentAbilities } from "../machines/AgentAbilities.tsx";
import { modeHint, modeName } from "../session/SessionSettings.tsx";

interface Failure {
  message: string;
  logs: Schemas["LogLineView"][];
}

/** Starts a session. A failure shows every step, and why the last one failed. */
export function NewSession() {
  const connected = [...machines.value.values()].filter((machine) => machine.active);
  const last = sessions.value[0];
  const [machineId, setMachineId] = useState("");
  const machine = machines.value.get(machineId) ?? connected.find((one) => one.id === last?.machineId) ?? connected[0];
  const agents = [...(machine?.agents ?? [])].sort((one, other) => Number(other.available) - Number(one.available));
  const [agentName, setAgentName] = useState("");
  const agent = agents.find((one) => one.name === agentName) ?? agents.find((one) => one.available && one.name === last?.agent) ?? agents.find((one) => one.available);
  const recent = useMemo(
    () => [...new Set(sessions.value.filter((session) => session.machineId === machine?.id).map((session) => session.worktree?.base ?? session.directory))].slice(0, 6),
    [sessions.value, machine?.id],
  );
  const [directory, setDirectory] = useState<string | null>(null);
  const place = directory ?? recent[0] ?? machine?.roots[0] ?? "";
  const [mode, setMode] = useState<PermissionMode>("default");
  const [model, setModel] = useState("");
  const [effort, setEffort] = useState("");
  const [worktree, setWorktree] = useState(false);
  const [worktreeName, setWorktreeName] = useState("");
  const [prompt, setPrompt] = useState("");
  const [isBusy, setBusy] = useState(false);
  const [failure, setFailure] = useState<Failure | null>(null);
  /** The same key until something changes: a lost answer does not start a second session. */
  const attemptKey = useRef<{ body: string; key: string } | null>(null);
  useEffect(() => { setModel(""); setEffort(""); }, [agent?.name, machine?.id]);

  const submit = async (event: Event): Promise<void> => {
    event.preventDefault();
    if (!machine || !agent) return;
    const body: Schemas["CreateSession"] = {
      machineId: machine.id, directory: place.trim(), agent: agent.name, permissionMode: mode, source: "page",
      ...(model.trim() ? { model: model.trim() } : {}),
      ...(effort ? { modelReasoningEffort: effort as Schemas["ReasoningEffort"] } : {}),
      ...(worktree ? { sessionType: "worktree", worktreeName: worktreeName.trim() } : {}),
      ...(prompt.trim() ? { prompt: prompt.trim() } : {}),
    };
    const content = JSON.stringify(body);
    if (attemptKey.current?.body !== content) attemptKey.current = { body: content, key: newId() };
    setBusy(true);
    setFailure(null);
    try {
      const answer = await call<Schemas["SessionCreated"]>("POST", "/api/sessions", body, { "Idempotency-Key": attemptKey.current.key });
      go(sessionAddress(answer.sessionId));
    } catch (error) {
      if (!(error instanceof ApiError && error.status === 0)) attemptKey.current = null;
      const logs = error instanceof ApiError && Array.isArray(error.details["logs"]) ? (error.details["logs"] as Schemas["LogLineView"][]) : [];
      setFailure({ message: messageOf(error), logs });
      setBusy(false);
    }
  };

  if (!connected.length) {
    return <div class="page narrow"><div class="empty"><Icon name="machine" size={40} /><h1>{t("noMachine")}</h1><p>{t("noMachineLead").replaceAll("`", "")}</p></div></div>;
  }
  return (
    <div class="page narrow">
      <header class="page-head"><div><h1>{t("newSession")}</h1><p class="muted">{t("newSessionLead")}</p></div></header>
      <form class="form" onSubmit={(event) => void submit(event)}>
        {connected.length > 1 && (
          <label class="field">{t("machine")}
            <select value={machine?.id} onChange={(event) => { setMachineId(event.currentTarget.value); setDirectory(null); }}>
              {connected.map((one) => <option key={one.id} value={one.id}>{one.name ?? one.host}</option>)}
            </select>
          </label>
        )}
        <fieldset class="agents">
          <legend>{t("agent")}</legend>
          <div class="agent-list">
            {agents.filter((one) => one.available).map((one) => (
              <label key={one.name} class={one === agent ? "agent picked" : "agent"}>
                <input type="radio" name="agent" checked={one === agent} onChange={() => setAgentName(one.name)} />
                <b>{one.title}</b><span class="muted small">{one.version ?? ""}</span>
                {one.warning && <span class="muted small">{one.warning}</span>}
              </label>
            ))}
          </div>
          {agent && <AgentAbilities capabilities={agent.capabilities} />}
          {agent?.login && <p class="notice">{t("toLogIn")}: <code>{agent.login}</code></p>}
          {agents.some((one) => !one.available) && <p class="muted small"><a href="#/machines">{t("showMissing", { n: agents.filter((one) => !one.available).length })}</a></p>}
        </fieldset>
        <label class="field">{t("directory")}
          <input type="text" required dir="ltr" spellcheck={false} autocomplete="off" value={place} placeholder={t("directoryHint", { machine: machine?.name ?? machine?.host ?? "" })}
            onInput={(event) => setDirectory(event.currentTarget.value)} />
        </label>
        {machine && machine.roots.length > 0 && <p class="muted small">{t("directoryRoots", { roots: machine.roots.join(", ") })}</p>}
        {recent.length > 0 && (
          <div class="chips" role="group" aria-label={t("recentDirectories")}>
            {recent.map((path) => <button type="button" key={path} class={path === place ? "chip picked" : "chip"} aria-pressed={path === place} onClick={() => setDirectory(path)}><bdi>{cleanText(path)}</bdi></button>)}
          </div>
        )}
        <label class="field">{t("firstMessage")}
          <textarea rows={4} dir="auto" value={prompt} placeholder={t("firstMessageHint")} onInput={(event) => setPrompt(event.currentTarget.value)}
            onKeyDown={(event) => { if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) event.currentTarget.form?.requestSubmit(); }} />
        </label>
        <div class="field-row">
          <label class="field">{t("permissionMode")}
            <select value={mode} onChange={(event) => setMode(event.currentTarget.value as PermissionMode)}>
              {PERMISSION_MODES.map((one) => <option key={one} value={one}>{modeName(one)}</option>)}
            </select>
            <small class="muted">{modeHint(mode)}</small>
          </label>
          <label class="field">{t("model")}
            <input type="text" list="models" value={model} spellcheck={false} placeholder={t("defaultModel")} onInput={(event) => setModel(event.currentTarget.value)} />
            <datalist id="models">{agent?.models?.map((one) => <option key={one} value={one} />)}</datalist>
          </label>
          <label class="field">{t("effort")}
            <select value={effort} onChange={(event) => setEffort(event.currentTarget.value)}>
              <option value="">{t("defaultEffort")}</option>
              {EFFORTS.map((one) => <option key={one} value={one}>{t(`effort_${one}` as TextKey)}</option>)}
            </select>
          </label>
        </div>
        <label class="check"><input type="checkbox" checked={worktree} onChange={(event) => setWorktree(event.currentTarget.checked)} />{t("useWorktree")}</label>
        {worktree && <label class="field">{t("worktreeName")}<input type="text" required spellcheck={false} maxLength={100} value={worktreeName} onInput={(event) => setWorktreeName(event.currentTarget.value)} /></label>}
        {failure && (
          <div class="failure" role="alert">
            <h2><Icon name="warning" size={17} /> {t("createFailed")}</h2>
            <p dir="auto">{cleanText(failure.message)}</p>
            {failure.logs.length > 0 && <ol>{failure.logs.map((line, index) => <li key={index} class={line.status}><b>{line.step}</b> <span dir="auto">{cleanText(line.message)}</span></li>)}</ol>}
          </div>
        )}
        <footer><a class="button" href="#/">{t("cancel")}</a><button type="submit" class="primary" disabled={isBusy || !place.trim() || !agent}>{t(isBusy ? "creating" : "create")}</button></footer>
      </form>
    </div>
  );
}
