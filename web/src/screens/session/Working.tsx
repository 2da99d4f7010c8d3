import { useEffect, useState } from "preact/hooks";
import type { Session } from "../../api/types.ts";
import { needOf } from "../../state/sessions.ts";
import { t } from "../../texts/index.ts";

/** A line at the end of the log while a turn runs. */
export function Working({ session }: { session: Session }) {
  const [since, setSince] = useState(Date.now());
  const [now, setNow] = useState(Date.now());
  const isWorking = session.thinking && session.status !== "unreachable";
  useEffect(() => {
    if (!isWorking) return;
    setSince(Date.now());
    setNow(Date.now());
    const timer = setInterval(() => setNow(Date.now()), 1000);
    return () => clearInterval(timer);
  }, [isWorking, session.turnId]);
  if (session.status === "unreachable") return <p class="working off" role="status">{t("unreachableState")}</p>;
  if (!isWorking) return null;
  const seconds = Math.max(0, Math.floor((now - since) / 1000));
  const time = seconds < 60 ? `${seconds} s` : `${Math.floor(seconds / 60)} min ${seconds % 60} s`;
  const asks = needOf(session) === "asks";
  return (
    <p class={asks ? "working asks" : "working"} role="status" data-working>
      <span class="pulse" aria-hidden="true" />
      <span>{asks ? t("waitingForAnswer") : t("thinking")}</span>
      {!asks && seconds > 2 && <span aria-hidden="true">{time}</span>}
    </p>
  );
}
