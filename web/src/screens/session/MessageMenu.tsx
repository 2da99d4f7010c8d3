import { useState } from "preact/hooks";
import { post } from "../../api/http.ts";
import type { Schemas } from "../../api/types.ts";
import { go, sessionAddress } from "../../state/router.ts";
import { machines, sessionOf } from "../../state/sessions.ts";
import { attempt, tell } from "../../state/toasts.ts";
import { t } from "../../texts/index.ts";
import { Dialog } from "../../ui/dialog.tsx";
import { Icon } from "../../ui/icons.tsx";
import { Menu, type MenuItem } from "../../ui/menu.tsx";

interface Props {
  sessionId: string;
  seq: number;
  text: string;
  onEdit: (text: string) => void;
}

export function capabilitiesOf(sessionId: string): Schemas["Capabilities"] | null {
  const session = sessionOf(sessionId);
  const machine = session && machines.value.get(session.machineId);
  return machine?.agents.find((agent) => agent.name === session?.agent)?.capabilities ?? null;
}

/** What can be done with a message that was sent: rewind to it, or fork before it, where the agent can. */
export function MessageMenu({ sessionId, seq, text, onEdit }: Props) {
  const [asks, setAsks] = useState(false);
  const can = capabilitiesOf(sessionId);
  const items: MenuItem[] = [];
  if (can?.rewind) items.push({ label: t("rewindHere"), icon: "rewind", run: () => setAsks(true) });
  if (can?.fork) items.push({ label: t("forkHere"), icon: "fork", run: () => void attempt(() => fork(sessionId, seq)) });
  if (!items.length) return null;
  return (
    <>
      <Menu label={t("messageMenu")} items={items} className="quiet small"><Icon name="more" size={16} /></Menu>
      {asks && <RewindDialog sessionId={sessionId} seq={seq} text={text} restores={can?.fileRestore ?? false} onEdit={onEdit} onClose={() => setAsks(false)} />}
    </>
  );
}

export async function fork(sessionId: string, seq: number | null): Promise<void> {
  const answer = await post<Schemas["SessionResponse"] | Schemas["SessionCreated"]>(`/api/sessions/${sessionId}/fork`, seq === null ? {} : { seq });
  go(sessionAddress("sessionId" in answer ? answer.sessionId : answer.session.id));
}

function RewindDialog({ sessionId, seq, restores, onEdit, onClose }: Props & { restores: boolean; onClose: () => void }) {
  const [files, setFiles] = useState(restores);
  const [isBusy, setBusy] = useState(false);
  const run = async (): Promise<void> => {
    setBusy(true);
    const done = await attempt(async () => {
      const answer = await post<Schemas["SessionRewound"]>(`/api/sessions/${sessionId}/rewind`, { seq, restoreFiles: files });
      onEdit(answer.text);
      tell([t("rewound", { status: answer.files.status }), ...(answer.files.skipped ?? [])].join(" "), answer.files.status === "partial" || answer.files.status === "failed");
    });
    setBusy(false);
    if (done) onClose();
  };
  return (
    <Dialog title={t("rewindHere")} onClose={onClose}>
      <p>{t("rewindQuestion")}</p>
      {restores ? <label class="check"><input type="checkbox" checked={files} onChange={(event) => setFiles(event.currentTarget.checked)} />{t("restoreFiles")}</label>
        : <p class="muted">{t("noFileRestore")}</p>}
      <footer>
        <button type="button" onClick={onClose}>{t("cancel")}</button>
        <button type="button" class="danger" disabled={isBusy} onClick={() => void run()}>{t("rewindHere")}</button>
      </footer>
    </Dialog>
  );
}
