import { useState } from "preact/hooks";
import { post } from "../../api/http.ts";
import { EFFORTS, PERMISSION_MODES, type Effort, type PermissionMode, type Session } from "../../api/types.ts";
import { machines } from "../../state/sessions.ts";
import { attempt } from "../../state/toasts.ts";
import { t, type TextKey } from "../../texts/index.ts";
import { Dialog } from "../../ui/dialog.tsx";
import { Menu } from "../../ui/menu.tsx";

const MODES: Record<PermissionMode, readonly [TextKey, TextKey]> = {
  default: ["modeDefault", "modeDefaultHint"], acceptEdits: ["modeAcceptEdits", "modeAcceptEditsHint"], plan: ["modePlan", "modePlanHint"],
  "read-only": ["modeReadOnly", "modeReadOnlyHint"], "safe-yolo": ["modeSafeYolo", "modeSafeYoloHint"], yolo: ["modeYolo", "modeYoloHint"],
  bypassPermissions: ["modeBypass", "modeBypassHint"],
};

export const modeName = (mode: PermissionMode): string => t(MODES[mode][0]);
export const modeHint = (mode: PermissionMode): string => t(MODES[mode][1]);

/** Permission mode, model and effort of a session. */
export function SessionSettings({ session }: { session: Session }) {
  const [namesModel, setNamesModel] = useState(false);
  const agent = machines.value.get(session.machineId)?.agents.find((one) => one.name === session.agent);
  const models = [...new Set([...(agent?.models ?? []), ...(session.model ? [session.model] : [])])];
  const path = `/api/sessions/${session.id}`;
  const setModel = (model: string, effort: Effort | null): Promise<boolean> =>
    attempt(() => post(`${path}/model`, { model, ...(effort ? { reasoningEffort: effort } : {}) }));
  const isLoose = session.permissionMode === "yolo" || session.permissionMode === "bypassPermissions";
  return (
    <>
      <Menu up label={`${t("permissionMode")}: ${modeName(session.permissionMode)}`} className={isLoose ? "chip warn" : "chip"}
        items={PERMISSION_MODES.map((mode) => ({
          label: modeName(mode), hint: modeHint(mode), chosen: mode === session.permissionMode,
          run: () => void attempt(() => post(`${path}/permission-mode`, { mode })),
        }))}>{modeName(session.permissionMode)}</Menu>
      <Menu up label={`${t("model")}: ${session.model ?? t("defaultModel")}`} className="chip model"
        items={[
          ...models.map((model) => ({ label: model, chosen: model === session.model, run: () => void setModel(model, session.modelReasoningEffort) })),
          { label: t("otherModel"), run: () => setNamesModel(true) },
        ]}>{session.model ?? t("defaultModel")}</Menu>
      {session.model !== null && (
        <Menu up label={`${t("effort")}: ${session.modelReasoningEffort ?? t("defaultEffort")}`} className="chip wide-only"
          items={EFFORTS.map((effort) => ({ label: t(`effort_${effort}`), chosen: effort === session.modelReasoningEffort, run: () => void setModel(session.model ?? "", effort) }))}>
          {session.modelReasoningEffort ? t(`effort_${session.modelReasoningEffort}`) : t("effort")}
        </Menu>
      )}
      {namesModel && <NameDialog title={t("otherModel")} label={t("modelName")} value={session.model ?? ""} onClose={() => setNamesModel(false)} onSave={(name) => setModel(name, null)} />}
    </>
  );
}

export function NameDialog({ title, label, value, onClose, onSave }: {
  title: string; label: string; value: string; onClose: () => void; onSave: (text: string) => Promise<boolean>;
}) {
  const [text, setText] = useState(value);
  return (
    <Dialog title={title} onClose={onClose}>
      <form onSubmit={(event) => { event.preventDefault(); void onSave(text.trim()).then((done) => { if (done) onClose(); }); }}>
        <label class="field">{label}<input type="text" dir="auto" autofocus required maxLength={200} value={text} onInput={(event) => setText(event.currentTarget.value)} /></label>
        <footer>
          <button type="button" onClick={onClose}>{t("cancel")}</button>
          <button type="submit" class="primary" disabled={!text.trim()}>{t("save")}</button>
        </footer>
      </form>
    </Dialog>
  );
}
