import { signal, type Signal } from "@preact/signals";
import { get } from "../api/http.ts";
import { onEvent, onReload } from "../api/live.ts";
import { ApiError } from "../api/request.ts";
import type { Schemas, SyncEvent } from "../api/types.ts";
import { Conversation } from "../model/conversation.ts";
import { outgoing, settleMessages } from "./outbox.ts";
import { soon } from "./schedule.ts";
import { refreshSession, sessionOf } from "./sessions.ts";

const TAIL = 120;
const PAGE = 200;
const MAX_ENTRIES = 1500;
const KEPT_ENTRIES = 600;

/** A session that is shown: the end of its log, followed live, and older entries on demand. */
export class OpenSession {
  readonly id: string;
  readonly conversation = new Conversation();
  readonly version: Signal<number> = signal(0);
  readonly state: Signal<"loading" | "ready" | "gone" | "failed"> = signal("loading");
  readonly readingOlder: Signal<boolean> = signal(false);
  /** Counts what a person has sent from here: then the end is shown. */
  readonly jumps: Signal<number> = signal(0);
  /** Whether the end is in view: then old entries need not be kept. */
  followsEnd = true;
  private early: SyncEvent[] | null = [];
  private readonly changed = soon(() => this.version.value++);
  private readonly stops: (() => void)[];
  private round = 0;

  constructor(id: string) {
    this.id = id;
    this.stops = [
      onEvent((event) => this.receive(event)),
      onReload(() => void this.read()),
      // The answer to a message may come after everything that it has caused.
      outgoing.subscribe(() => this.settle()),
    ];
    void this.read();
  }

  close(): void {
    this.round++;
    for (const stop of this.stops) stop();
  }

  /** Reads the session and the end of its log. What happens meanwhile is applied afterwards. */
  async read(): Promise<void> {
    const round = ++this.round;
    this.early = [];
    try {
      const session = await refreshSession(this.id);
      const answer = await get<Schemas["MessagesResponse"]>(`/api/sessions/${this.id}/messages?limit=${TAIL}`);
      if (round !== this.round) return;
      this.conversation.load(answer.messages, session.seq, answer.page.hasMore);
      const early = this.early ?? [];
      this.early = null;
      for (const event of early) this.apply(event);
      this.state.value = "ready";
      this.settle();
    } catch (error) {
      if (round !== this.round) return;
      const isGone = error instanceof ApiError && error.status === 404;
      if (isGone) this.state.value = "gone";
      else if (this.state.value === "loading") this.state.value = "failed";
    }
    this.changed();
  }

  /** Reads the entries before the first one. */
  async readOlder(): Promise<void> {
    const first = this.conversation.entries[0];
    if (!first || !this.conversation.hasOlder || this.readingOlder.value) return;
    this.readingOlder.value = true;
    const round = this.round;
    try {
      const answer = await get<Schemas["MessagesResponse"]>(`/api/sessions/${this.id}/messages?limit=${PAGE}&beforeSeq=${first.seq}`);
      if (round === this.round) this.conversation.prepend(answer.messages, answer.page.hasMore);
    } catch {
      // It is tried again with the next scroll.
    }
    this.readingOlder.value = false;
    this.version.value++;
  }

  private receive(event: SyncEvent): void {
    if (!("sessionId" in event) || event.sessionId !== this.id) return;
    if (this.early) this.early.push(event);
    else this.apply(event);
  }

  private apply(event: SyncEvent): void {
    switch (event.type) {
      case "message-received":
        this.conversation.add(event.message);
        if (this.followsEnd) this.conversation.trim(MAX_ENTRIES, KEPT_ENTRIES);
        this.settle();
        break;
      case "message-delta":
        this.conversation.addDelta(event.delta);
        break;
      case "messages-cleared":
        this.conversation.clear(event.data.clearedSeq);
        break;
      case "session-updated":
        this.settle();
        return;
      case "session-removed":
        this.state.value = "gone";
        break;
      default:
        return;
    }
    this.changed();
  }

  /** Messages of this browser that the queue or the log shows are not shown a second time. */
  private settle(): void {
    const queue = sessionOf(this.id)?.queue ?? [];
    settleMessages((message) =>
      message.sessionId !== this.id
        || this.conversation.localIds.has(message.localId)
        || (message.itemId !== null && (this.conversation.itemIds.has(message.itemId) || queue.some((item) => item.id === message.itemId))));
  }
}
