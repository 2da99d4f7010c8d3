import { signal } from "@preact/signals";
import { io, type Socket } from "socket.io-client";
import { account, currentJwt, forgetJwt } from "./account.ts";
import type { Ready, Schemas, SyncEvent } from "./types.ts";

export type Connection = "connecting" | "online" | "offline";
export const connection = signal<Connection>("connecting");

type Listener = (event: SyncEvent) => void;
const listeners = new Set<Listener>();
const reloaders = new Set<() => void>();

let socket: Socket | null = null;
let since: string | undefined;

/** Calls `listener` for every live event, in order, until the returned function is called. */
export function onEvent(listener: Listener): () => void {
  listeners.add(listener);
  return () => listeners.delete(listener);
}

/** Calls `reload` whenever what is shown must be read again: after the first connection and after a gap. */
export function onReload(reload: () => void): () => void {
  reloaders.add(reload);
  return () => reloaders.delete(reload);
}

export function connect(): void {
  disconnect();
  connection.value = "connecting";
  const opened = io("/events", {
    transports: ["websocket", "polling"],
    reconnectionDelay: 300,
    reconnectionDelayMax: 5000,
    // Called for every connection: the JWT of the first one may have expired.
    auth: (answer) => {
      currentJwt().then(
        (token) => answer({ token, ...(since === undefined ? {} : { since }) }),
        () => opened.io.engine.close(),
      );
    },
  });
  socket = opened;
  opened.on("ready", ({ cursor, resume }: Ready) => {
    if (resume !== "ok") since = cursor;
    connection.value = "online";
    if (resume !== "ok") for (const reload of reloaders) reload();
  });
  opened.on("event", (event: SyncEvent) => {
    if ("cursor" in event && event.cursor) since = event.cursor;
    for (const listener of listeners) listener(event);
  });
  opened.on("closed", (reason: Schemas["ClosedEvent"]) => {
    if (reason.code === "token_expired" || reason.code === "unauthorized") forgetJwt();
  });
  opened.on("disconnect", () => lost(opened));
  opened.on("connect_error", () => {
    lost(opened);
    forgetJwt();
    // After a refusal it does not try again by itself.
    if (!opened.active) setTimeout(() => socket === opened && opened.connect(), 2000);
  });
}

function lost(from: Socket): void {
  if (socket === from && account.value) connection.value = "offline";
}

export function disconnect(): void {
  socket?.removeAllListeners();
  socket?.disconnect();
  socket = null;
  since = undefined;
}

/** Tries at once: the network or the computer is back. */
export function retryNow(): void {
  if (!socket || connection.value === "online") return;
  socket.disconnect();
  socket.connect();
}

export function watchNetwork(): void {
  addEventListener("online", retryNow);
  addEventListener("offline", () => {
    // The browser knows before any heartbeat fails.
    if (socket) {
      connection.value = "offline";
      socket.io.engine?.close();
    }
  });
  document.addEventListener("visibilitychange", () => {
    if (!document.hidden) retryNow();
  });
}
