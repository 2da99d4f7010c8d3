import { cleanText } from "../model/ansi.ts";
import type { Session } from "../api/types.ts";
import { go, route, sessionAddress } from "../state/router.ts";
import { isRunning, needOf, sessions } from "../state/sessions.ts";
import { t } from "../texts/index.ts";
import { StatusDot, titleOf } from "../screens/home/status.tsx";

const SHOWN = 30;

/** The sessions to go to: those that need a person, those that run, the last used ones. */
function shownSessions(): Session[] {
  const rank = (session: Session): number => (needOf(session) ? 0 : isRunning(session) ? 1 : 2);
  return sessions.value.slice(0, 200).sort((one, other) => rank(one) - rank(other)).slice(0, SHOWN);
}

export function neighbour(step: number): void {
  const shown = shownSessions();
  const here = route.value;
  const index = here.screen === "session" ? shown.findIndex((session) => session.id === here.id) : step > 0 ? -1 : 0;
  const next = shown[(index + step + shown.length) % Math.max(1, shown.length)];
  if (next) go(sessionAddress(next.id));
}

export function SideList({ current }: { current: string | null }) {
  const shown = shownSessions();
  return (
    <nav class="side-list" aria-label={t("recent")}>
      <ul>
        {shown.map((session) => (
          <li key={session.id}>
            <a href={sessionAddress(session.id)} aria-current={session.id === current ? "page" : undefined} title={cleanText(titleOf(session))}>
              <StatusDot session={session} /><span dir="auto">{cleanText(titleOf(session))}</span>
            </a>
          </li>
        ))}
      </ul>
    </nav>
  );
}
