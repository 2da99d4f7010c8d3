import { approvals, loading } from "../../state/sessions.ts";
import { sessionAddress } from "../../state/router.ts";
import { t } from "../../texts/index.ts";
import { Icon } from "../../ui/icons.tsx";
import { ApprovalCard } from "./ApprovalCard.tsx";

/** Everything that waits for a person, over all sessions. */
export function Inbox() {
  const open = approvals.value;
  return (
    <div class="page narrow">
      <header class="page-head"><h1>{t("inbox")}</h1>{open.length > 0 && <span class="count">{open.length}</span>}</header>
      {open.length === 0 && loading.value === "ready" && (
        <div class="empty"><Icon name="inbox" size={40} /><h2>{t("nothingWaits")}</h2><p>{t("nothingWaitsLead")}</p></div>
      )}
      <div class="stack">
        {open.map((one, index) => (
          <section key={`${one.sessionId} ${one.approval.id}`}>
            <p class="inbox-from"><a href={sessionAddress(one.sessionId)}><bdi>{one.sessionTitle ?? t("untitled")}</bdi></a> <span class="muted">· {one.agent}</span></p>
            <ApprovalCard sessionId={one.sessionId} approval={one.approval} takesKeys={index === 0} />
          </section>
        ))}
      </div>
    </div>
  );
}
