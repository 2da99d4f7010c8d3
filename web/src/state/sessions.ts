import { computed, signal } from "@preact/signals";
import { get } from "../api/http.ts";
import { onEvent, onReload } from "../api/live.ts";
import type { Machine, OpenApproval, Schemas, Session, SyncEvent } from "../api/types.ts";
import { changeQueue } from "../model/queue.ts";
import { soon } from "./schedule.ts";

const byId = new Map<string, Session>();
const version = signal(0);
const changed = soon(() => version.value++);

export const machines = signal<ReadonlyMap<string, Machine>>(new Map());
/** Everything that waits for a person, whole. */
export const approvals = signal<readonly OpenApproval[]>([]);
/** Whether the list is complete, or why it could not be read. */
export const loading = signal<"loading" | "ready" | "failed">("loading");

/** All sessions, last active first. */
export const sessions = computed<readonly Session[]>(() => {
  void version.value;
  return [...byId.values()].sort((one, other) => other.updatedAt - one.updatedAt);
});

export function sessionOf(id: string): Session | undefined {
  void version.value;
  return byId.get(id);
}

export type Need = "asks" | "failed" | null;

/** What a session needs a person for. */
export function needOf(session: Session): Need {
  if (session.pendingRequestsCount > 0 || session.approvals.length > 0) return "asks";
  return session.status === "failed" ? "failed" : null;
}

export const isRunning = (session: Session): boolean => session.thinking || session.status === "starting" || session.status === "working";

export const waitingCount = computed(() => approvals.value.length);

export function start(): () => void {
  const stops = [onEvent(apply), onReload(() => void reload())];
  return () => {
    for (const stop of stops) stop();
    byId.clear();
    version.value++;
    machines.value = new Map();
    approvals.value = [];
    loading.value = "loading";
  };
}

let reading = 0;

export async function reload(): Promise<void> {
  const round = ++reading;
  try {
    const [found] = await Promise.all([readSessions(), readMachines(), readApprovals()]);
    if (round !== reading) return;
    for (const id of byId.keys()) if (!found.has(id)) byId.delete(id);
    loading.value = "ready";
  } catch {
    if (round === reading && loading.value !== "ready") loading.value = "failed";
  }
  changed();
}

async function readSessions(): Promise<Set<string>> {
  const found = new Set<string>();
  let cursor: string | null = null;
  do {
    const query: string = cursor === null ? "" : `&cursor=${encodeURIComponent(cursor)}`;
    const page: Schemas["SessionsResponse"] = await get(`/api/sessions?limit=200${query}`);
    for (const session of page.sessions) {
      byId.set(session.id, session);
      found.add(session.id);
    }
    changed();
    cursor = page.nextCursor ?? null;
  } while (cursor !== null);
  return found;
}

async function readMachines(): Promise<void> {
  const answer = await get<Schemas["MachinesResponse"]>("/api/machines");
  machines.value = new Map(answer.machines.map((machine) => [machine.id, machine]));
}

let approvalRound = 0;

export async function readApprovals(): Promise<void> {
  const round = ++approvalRound;
  const answer = await get<Schemas["ApprovalsResponse"]>("/api/approvals");
  if (round === approvalRound) approvals.value = answer.approvals;
}

export async function refreshSession(id: string): Promise<Session> {
  const answer = await get<Schemas["SessionResponse"]>(`/api/sessions/${id}`);
  byId.set(id, answer.session);
  changed();
  return answer.session;
}

function apply(event: SyncEvent): void {
  switch (event.type) {
    case "session-added":
      byId.set(event.sessionId, event.data);
      followApprovals(event.sessionId, event.data);
      changed();
      break;
    case "session-updated": {
      const known = byId.get(event.sessionId);
      if (!known) {
        void refreshSession(event.sessionId).catch(() => undefined);
        break;
      }
      const { partial: _, queueChanges, ...fields } = event.data;
      const session = { ...known, ...(fields as Partial<Session>) };
      if (queueChanges) session.queue = changeQueue(session.queue, queueChanges);
      byId.set(event.sessionId, session);
      if (fields.approvals) followApprovals(event.sessionId, session);
      changed();
      break;
    }
    case "session-removed":
      byId.delete(event.sessionId);
      approvals.value = approvals.value.filter((open) => open.sessionId !== event.sessionId);
      changed();
      break;
    case "machine-updated":
      machines.value = new Map(machines.value).set(event.machineId, event.data);
      break;
    case "machine-removed": {
      const left = new Map(machines.value);
      left.delete(event.machineId);
      machines.value = left;
      break;
    }
    default:
  }
}

/** Removes answered approvals at once. New ones are added; a summary is read whole first. */
function followApprovals(sessionId: string, session: Session): void {
  const open = new Map(session.approvals.map((approval) => [approval.id, approval]));
  const kept = approvals.value.filter((one) => one.sessionId !== sessionId || open.delete(one.approval.id));
  let whole = true;
  for (const approval of open.values()) {
    if (approval.seq == null) kept.push({ sessionId, sessionTitle: session.title, agent: session.agent, approval });
    else whole = false;
  }
  approvals.value = kept;
  if (!whole) void readApprovals().catch(() => undefined);
}

/** Somebody has answered: it is not open any more, whatever comes in which order. */
export function dropApproval(sessionId: string, approvalId: string): void {
  approvals.value = approvals.value.filter((one) => one.sessionId !== sessionId || one.approval.id !== approvalId);
}
