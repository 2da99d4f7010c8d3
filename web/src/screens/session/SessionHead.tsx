import { useState } from "preact/hooks";
import { call, download, post } from "../../api/http.ts";
import type { Session } from "../../api/types.ts";
import { cleanText } from "../../model/ansi.ts";
import { go } from "../../state/router.ts";
import { machines } from "../../state/sessions.ts";
import { attempt } from "../../state/toasts.ts";
import { shortNumber, t } from "../../texts/index.ts";
import { confirmed } from "../../ui/dialog.tsx";
import { Icon } from "../../ui/icons.tsx";
import { Menu, type MenuItem } from "../../ui/menu.tsx";
import { StatusDot, statusText, titleOf, toneOf } from "../home/status.tsx";
import { capabilitiesOf, fork } from "./MessageMenu.tsx";
import { NameDialog } from "./SessionSettings.tsx";

/** Title, place and state of a session, and what can be done with all of it. */
export function SessionHead({ session }: { session: Session }) {
  const [renames, setRenames] = useState(false);
  const host = machines.value.get(session.machineId);
  const { contextUsed, contextSize } = session.usage;
  const used = (session.usage.inputTokens ?? 0) + (session.usage.outputTokens ?? 0);
  const path = `/api/sessions/${session.id}`;
  const remove = async (): Promise<void> => {
    if (!(await confirmed(t("deleteSession"), t("deleteQuestion"), t("delete")))) return;
    if (await attempt(() => call("DELETE", path))) go("#/");
  };
  const items: MenuItem[] = [
    { label: t("rename"), icon: "edit", run: () => setRenames(true) },
    ...(capabilitiesOf(session.id)?.fork ? [{ label: t("forkAll"), icon: "fork" as const, run: () => void attempt(() => fork(session.id, null)) }] : []),
    { label: t("exportMarkdown"), icon: "file", run: () => void attempt(() => saveExport(path, "markdown")) },
    { label: t("exportJsonl"), icon: "file", run: () => void attempt(() => saveExport(path, "jsonl")) },
    ...(session.active ? [{ label: t("endProcess"), icon: "stop" as const, run: () => void attempt(() => post(`${path}/stop`)) }] : []),
    { label: t("deleteSession"), icon: "trash", danger: true, run: () => void remove() },
  ];
  return (
    <header class="session-head">
      <a class="button quiet back" href="#/" aria-label={t("home")}><Icon name="back" /></a>
      <div class="session-title">
        <h1 dir="auto" title={cleanText(titleOf(session))}>{cleanText(titleOf(session))}</h1>
        <p class="session-facts">
          <span class={`state ${toneOf(session)}`}><StatusDot session={session} /><span aria-hidden="true">{statusText(session)}</span></span>
          <span>{session.agent}</span>
          <span class="path" title={session.directory}><bdi>{session.directory}</bdi></span>
          {session.worktree && <span title={t("branch")}><bdi>{session.worktree.branch}</bdi></span>}
          <span class="wide-only">{host?.name ?? host?.host}</span>
          {contextUsed != null && contextSize ? <span class="wide-only">{t("contextFull", { n: Math.round((100 * contextUsed) / contextSize) })}</span>
            : used > 0 && <span class="wide-only">{t("tokens", { n: shortNumber(used) })}</span>}
        </p>
      </div>
      <Menu label={t("sessionMenu")} items={items}><Icon name="more" /></Menu>
      {renames && <NameDialog title={t("rename")} label={t("title")} value={session.title ?? ""} onClose={() => setRenames(false)}
        onSave={(title) => attempt(() => call("PATCH", path, { title }))} />}
    </header>
  );
}

async function saveExport(path: string, format: "markdown" | "jsonl"): Promise<void> {
  const { blob, name } = await download(`${path}/export?format=${format}`);
  const link = document.createElement("a");
  link.href = URL.createObjectURL(blob);
  link.download = name;
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 10_000);
}
