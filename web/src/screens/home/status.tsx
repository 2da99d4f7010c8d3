import type { Session } from "../../api/types.ts";
import { isRunning, needOf } from "../../state/sessions.ts";
import { t } from "../../texts/index.ts";

export type Tone = "ask" | "bad" | "run" | "off" | "idle";

export function toneOf(session: Session): Tone {
  if (session.status === "unreachable") return "off";
  const need = needOf(session);
  if (need) return need === "asks" ? "ask" : "bad";
  if (isRunning(session)) return "run";
  return session.status === "stopped" ? "off" : "idle";
}

export function statusText(session: Session): string {
  if (session.status === "unreachable") return t("unreachableState");
  if (needOf(session) === "asks") return t("waitsForYou");
  if (session.inTerminal) return t("inTerminal");
  if (session.thinking) return t("working");
  return t(session.status);
}

export function StatusDot({ session }: { session: Session }) {
  return <span class={`dot ${toneOf(session)}`} role="img" aria-label={statusText(session)} />;
}

export function titleOf(session: Session): string {
  return session.title ?? session.lastMessage ?? t("untitled");
}

/** The last two parts of a directory. */
export function shortPath(path: string): string {
  const parts = path.split("/").filter(Boolean);
  return parts.length > 2 ? `…/${parts.slice(-2).join("/")}` : path;
}
