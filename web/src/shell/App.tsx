import { useEffect, useState } from "preact/hooks";
import { account } from "../api/account.ts";
import { connection } from "../api/live.ts";
import { go, route, type Route } from "../state/router.ts";
import { approvals, waitingCount } from "../state/sessions.ts";
import { dismiss, toasts } from "../state/toasts.ts";
import { language } from "../state/preferences.ts";
import { t } from "../texts/index.ts";
import { Confirmation } from "../ui/dialog.tsx";
import { Icon, type IconName } from "../ui/icons.tsx";
import { Logo } from "../ui/logo.tsx";
import { Home } from "../screens/home/Home.tsx";
import { Inbox } from "../screens/inbox/Inbox.tsx";
import { Machines } from "../screens/machines/Machines.tsx";
import { NewSession } from "../screens/new/NewSession.tsx";
import { SessionScreen } from "../screens/session/SessionScreen.tsx";
import { Settings } from "../screens/settings/Settings.tsx";
import { SignIn } from "../screens/signin/SignIn.tsx";
import { Usage } from "../screens/usage/Usage.tsx";
import { Keys } from "./Keys.tsx";
import { Palette } from "./Palette.tsx";
import { SideList, neighbour } from "./SideList.tsx";

const PLACES: readonly (readonly [Route["screen"], string, IconName, "home" | "inbox" | "machines" | "usage" | "settings"])[] = [
  ["home", "#/", "home", "home"], ["inbox", "#/inbox", "inbox", "inbox"], ["machines", "#/machines", "machine", "machines"],
  ["usage", "#/usage", "usage", "usage"], ["settings", "#/settings", "settings", "settings"],
];

export function App() {
  const [overlay, setOverlay] = useState<"palette" | "keys" | null>(null);
  const here = route.value;
  const isSignedIn = account.value !== null;
  useTitle(isSignedIn, here);
  useEffect(() => {
    if (!isSignedIn) return;
    const onKey = (event: KeyboardEvent): void => {
      if ((event.ctrlKey || event.metaKey) && event.key.toLowerCase() === "k") {
        event.preventDefault();
        setOverlay("palette");
        return;
      }
      const inField = (event.target as Element | null)?.closest("input, textarea, select, [role=menu], dialog");
      if (inField || event.ctrlKey || event.metaKey || event.altKey) return;
      const action = KEYS[event.key];
      if (event.key === "?") setOverlay("keys");
      else if (action) {
        event.preventDefault();
        action();
      }
    };
    addEventListener("keydown", onKey);
    return () => removeEventListener("keydown", onKey);
  }, [isSignedIn]);
  // Everything is drawn again in another language.
  const drawn = language.value;
  if (!isSignedIn) return <><SignIn key={drawn} /><Toasts /></>;
  return (
    <div class={here.screen === "session" ? "app in-session" : "app"} key={drawn}>
      <a class="skip" href="#content" onClick={(event) => { event.preventDefault(); document.getElementById("content")?.focus(); }}>{t("skipToContent")}</a>
      <aside class="side">
        <a href="#/" class="brand" aria-label="Farsteer"><Logo /></a>
        <a class="button primary side-new" href="#/new"><Icon name="plus" size={17} />{t("newSession")}</a>
        <nav aria-label={t("mainNavigation")}>
          {PLACES.map(([screen, address, icon, text]) => (
            <a key={screen} href={address} aria-current={here.screen === screen ? "page" : undefined}>
              <Icon name={icon} /><span>{t(text)}</span>
              {screen === "inbox" && waitingCount.value > 0 && <span class="count" data-inbox-count>{waitingCount.value}</span>}
            </a>
          ))}
        </nav>
        <SideList current={here.screen === "session" ? here.id : null} />
        <p class={`connection ${connection.value}`} role="status" data-connection={connection.value}>
          <span class="dot" aria-hidden="true" />{t(connection.value === "offline" ? "offlineShort" : connection.value)}
        </p>
      </aside>
      <main id="content" tabIndex={-1} class="main">
        {connection.value === "offline" && <p class="offline-bar" role="status">{t("offline")}</p>}
        <div class="screen" data-scroll={here.screen === "session" ? undefined : true}><Screen here={here} /></div>
      </main>
      {overlay === "palette" && <Palette onClose={() => setOverlay(null)} onKeys={() => setOverlay("keys")} />}
      {overlay === "keys" && <Keys onClose={() => setOverlay(null)} />}
      <Confirmation />
      <Toasts />
    </div>
  );
}

function Screen({ here }: { here: Route }) {
  switch (here.screen) {
    case "session":
      return <SessionScreen key={here.id} id={here.id} />;
    case "inbox":
      return <Inbox />;
    case "new":
      return <NewSession />;
    case "machines":
      return <Machines />;
    case "usage":
      return <Usage />;
    case "settings":
      return <Settings />;
    case "home":
      return <Home />;
  }
}

const KEYS: Record<string, () => void> = {
  c: () => go("#/new"),
  h: () => go("#/"),
  i: () => go("#/inbox"),
  j: () => neighbour(1),
  k: () => neighbour(-1),
  "/": () => document.querySelector<HTMLElement>("#composer, input[type=search]")?.focus(),
};

function Toasts() {
  return (
    <div class="toasts" aria-live="assertive">
      {toasts.value.map((toast) => (
        <div key={toast.id} class={toast.bad ? "toast bad" : "toast"} role={toast.bad ? "alert" : "status"}>
          <span dir="auto">{toast.text}</span>
          <button type="button" class="quiet small" aria-label={t("close")} onClick={() => dismiss(toast.id)}><Icon name="close" size={15} /></button>
        </div>
      ))}
    </div>
  );
}

/** How much waits is in the title too, for a page in the background. */
function useTitle(isSignedIn: boolean, here: Route): void {
  const waiting = approvals.value.length;
  const names = { home: "home", inbox: "inbox", new: "newSession", machines: "machines", usage: "usage", settings: "settings" } as const;
  const name = !isSignedIn ? t("signIn") : here.screen === "session" ? "" : t(names[here.screen]);
  useEffect(() => {
    document.title = [isSignedIn && waiting ? `(${waiting})` : "", name, name ? "· Farsteer" : "Farsteer"].filter(Boolean).join(" ");
  }, [isSignedIn, waiting, name]);
}
