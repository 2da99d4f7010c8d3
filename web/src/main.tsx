import { render } from "preact";
import { effect } from "@preact/signals";
import { account, followOtherTabs } from "./api/account.ts";
import { connect, disconnect, watchNetwork } from "./api/live.ts";
import { App } from "./shell/App.tsx";
import { applyPreferences } from "./state/preferences.ts";
import { startOutbox, stopOutbox } from "./state/outbox.ts";
import { start } from "./state/sessions.ts";
import "./styles/base.css";
import "./styles/controls.css";
import "./styles/shell.css";
import "./styles/home.css";
import "./styles/session.css";
import "./styles/blocks.css";
import "./styles/screens.css";

applyPreferences();
followOtherTabs();
watchNetwork();

let signedIn: string | null = null;
let stop: (() => void) | null = null;
effect(() => {
  const token = account.value?.token ?? null;
  if (token === signedIn) return;
  signedIn = token;
  stop?.();
  stop = null;
  disconnect();
  stopOutbox();
  if (token === null) return;
  stop = start();
  connect();
  void startOutbox().catch(() => undefined);
});

const root = document.getElementById("root");
if (root) render(<App />, root);
