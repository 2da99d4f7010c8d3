import { useEffect, useMemo, useState } from "preact/hooks";
import type { Session } from "../../api/types.ts";
import { OpenSession } from "../../state/open_session.ts";
import { approvals, sessionOf } from "../../state/sessions.ts";
import { t } from "../../texts/index.ts";
import { ApprovalCard } from "../inbox/ApprovalCard.tsx";
import { Composer } from "./Composer.tsx";
import { Log } from "./Log.tsx";
import { Queue } from "./Queue.tsx";
import { SessionHead } from "./SessionHead.tsx";

/** One session: its log, what waits, what it asks, and the field to write in. */
export function SessionScreen({ id }: { id: string }) {
  const opened = useMemo(() => new OpenSession(id), [id]);
  useEffect(() => () => opened.close(), [opened]);
  const [insert, setInsert] = useState<{ text: string } | null>(null);
  const session = sessionOf(id);
  const state = opened.state.value;
  if (state === "gone") return <Missing text={t("sessionGone")} />;
  if (state === "failed") return <Missing text={t("sessionFailedToLoad")} retry={() => void opened.read()} />;
  if (!session) return <div class="session"><div class="log-loading" role="status">{t("loading")}</div></div>;
  return (
    <div class="session">
      <SessionHead session={session} />
      <Log key={id} opened={opened} session={session} onEdit={(text) => setInsert({ text })} />
      <div class="session-foot">
        <Asked session={session} />
        <Queue session={session} onEdit={(text) => setInsert({ text })} />
        <Composer key={id} session={session} insert={insert} onSent={() => opened.jumps.value++} />
      </div>
    </div>
  );
}

function Asked({ session }: { session: Session }) {
  const open = approvals.value.filter((one) => one.sessionId === session.id);
  const first = open[0];
  if (!first) return null;
  return (
    <div class="asked-panel" role="region" aria-label={t("waitsForYou")} aria-live="polite">
      <ApprovalCard key={first.approval.id} sessionId={session.id} approval={first.approval} takesKeys />
      {open.length > 1 && <p class="muted small">{t("waitsHere", { n: open.length - 1 })}</p>}
    </div>
  );
}

function Missing({ text, retry }: { text: string; retry?: () => void }) {
  return (
    <div class="empty">
      <p>{text}</p>
      {retry && <button type="button" onClick={retry}>{t("retry")}</button>}
      <a class="button" href="#/">{t("home")}</a>
    </div>
  );
}
