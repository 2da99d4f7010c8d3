import { call, get, post } from "../../api/http.ts";
import type { QueueItem, Schemas, Session } from "../../api/types.ts";
import { connection } from "../../api/live.ts";
import { cleanText } from "../../model/ansi.ts";
import type { Outgoing } from "../../model/sender.ts";
import { discardMessage, outgoing, retryMessage } from "../../state/outbox.ts";
import { attempt } from "../../state/toasts.ts";
import { t } from "../../texts/index.ts";
import { Icon } from "../../ui/icons.tsx";

/** What waits: messages that the hub does not have yet, then those in the session's queue. */
export function Queue({ session, onEdit }: { session: Session; onEdit: (text: string) => void }) {
  const shown = new Set(session.queue.map((item) => item.localId).filter(Boolean));
  const queue = session.queue.filter((item) => item.state === "accepted" || item.state === "queued" || item.state === "handed_over");
  const own = outgoing.value.filter((message) => message.sessionId === session.id && !shown.has(message.localId));
  const waiting = queue.filter((item) => item.state !== "handed_over");
  if (!queue.length && !own.length) return null;
  return (
    <section class="queue" aria-label={t("queued", { n: queue.length + own.length })}>
      {(waiting.length > 0 || own.length > 0) && <h2 class="offscreen">{t("queued", { n: waiting.length + own.length })}</h2>}
      <ul>
        {queue.map((item) => <Waiting key={item.id} sessionId={session.id} item={item} onEdit={onEdit} />)}
        {own.map((message) => <Unsent key={message.localId} message={message} onEdit={onEdit} />)}
      </ul>
    </section>
  );
}

function Waiting({ sessionId, item, onEdit }: { sessionId: string; item: QueueItem; onEdit: (text: string) => void }) {
  const path = `/api/sessions/${sessionId}/queue/${item.id}`;
  const isHandedOver = item.state === "handed_over";
  const edit = async (): Promise<void> => {
    const text = item.truncated ? (await get<Schemas["QueueResponse"]>(`/api/sessions/${sessionId}/queue`)).items.find((one) => one.id === item.id)?.text : item.text;
    await call("DELETE", path);
    onEdit(text ?? item.text);
  };
  return (
    <li data-queued={item.id}>
      <span class="queue-state">{isHandedOver ? <span class="spinner" /> : <span class="clock" aria-hidden="true" />}</span>
      <span class="queue-text" dir="auto">{cleanText(item.text)}{item.attachments?.length ? <small> · {t("filesOf", { n: item.attachments.length })}</small> : null}</span>
      {isHandedOver ? <span class="muted small">{t("handedOver")}</span> : (
        <span class="queue-actions">
          <button type="button" class="quiet small" onClick={() => void attempt(() => post(`${path}/send-now`))}>{t("sendNow")}</button>
          <button type="button" class="quiet small" aria-label={t("editAgain")} title={t("editAgain")} onClick={() => void attempt(edit)}><Icon name="edit" size={15} /></button>
          <button type="button" class="quiet small" aria-label={t("cancelMessage")} title={t("cancelMessage")} onClick={() => void attempt(() => call("DELETE", path))}><Icon name="close" size={15} /></button>
        </span>
      )}
    </li>
  );
}

function Unsent({ message, onEdit }: { message: Outgoing; onEdit: (text: string) => void }) {
  const isRefused = message.state === "refused";
  const text = isRefused ? t("refused", { reason: message.reason ?? "" }) : connection.value === "online" || message.state === "accepted" ? t("sending") : t("sentWhenOnline");
  return (
    <li class={isRefused ? "refused" : "unsent"} data-unsent={message.localId}>
      <span class="queue-state">{isRefused ? <Icon name="warning" size={15} /> : <span class="spinner" />}</span>
      <span class="queue-text" dir="auto">{cleanText(message.text)}</span>
      <span class={isRefused ? "problem small" : "muted small"} role={isRefused ? "alert" : "status"}>{text}</span>
      {message.state !== "accepted" && (
        <span class="queue-actions">
          {isRefused && <button type="button" class="quiet small" onClick={() => retryMessage(message.localId)}>{t("retry")}</button>}
          <button type="button" class="quiet small" aria-label={t("editAgain")} title={t("editAgain")} onClick={() => { void discardMessage(message.localId); onEdit(message.text); }}><Icon name="edit" size={15} /></button>
          <button type="button" class="quiet small" aria-label={t("discard")} title={t("discard")} onClick={() => void discardMessage(message.localId)}><Icon name="close" size={15} /></button>
        </span>
      )}
    </li>
  );
}
