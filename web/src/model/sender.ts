import type { NewAttachment, Schemas } from "../api/types.ts";

export interface Outgoing {
  /** The hub takes a message with the same id once, however often it is sent. */
  localId: string;
  sessionId: string;
  text: string;
  attachments: NewAttachment[];
  delivery: Schemas["Delivery"];
  at: number;
  state: "waiting" | "accepted" | "refused";
  reason: string | null;
  /** The queue item that the hub has made of it. */
  itemId: string | null;
}

export type SendResult = { kind: "accepted"; itemId: string } | { kind: "later" } | { kind: "refused"; reason: string };

interface Parts {
  post: (message: Outgoing) => Promise<SendResult>;
  store: (message: Outgoing) => Promise<void>;
  remove: (localId: string) => Promise<void>;
  changed: (messages: readonly Outgoing[]) => void;
  retryMs?: number;
}

/** Sends messages in order, stored before they are sent, and again until the hub has answered. */
export class Sender {
  private messages: Outgoing[] = [];
  private running = false;
  private timer: ReturnType<typeof setTimeout> | undefined;
  private readonly parts: Parts;

  constructor(parts: Parts) {
    this.parts = parts;
  }

  load(stored: readonly Outgoing[]): void {
    const known = new Set(this.messages.map((message) => message.localId));
    this.messages = [...stored.filter((message) => !known.has(message.localId)), ...this.messages];
    this.tell();
    this.wake();
  }

  async put(message: Outgoing): Promise<void> {
    this.messages = [...this.messages, message];
    this.tell();
    // A browser without storage still sends; it only cannot survive a reload.
    await this.parts.store(message).catch(() => undefined);
    this.wake();
  }

  wake(): void {
    clearTimeout(this.timer);
    if (!this.running) void this.run();
  }

  retry(localId: string): void {
    this.change(localId, { state: "waiting", reason: null });
    this.wake();
  }

  async discard(localId: string): Promise<void> {
    this.messages = this.messages.filter((message) => message.localId !== localId);
    this.tell();
    await this.parts.remove(localId).catch(() => undefined);
  }

  /** Forgets all messages, without touching what is stored. */
  clear(): void {
    this.messages = [];
    this.tell();
  }

  /** Forgets accepted messages that are shown from the hub's own data by now. */
  settle(isKnown: (message: Outgoing) => boolean): void {
    const left = this.messages.filter((message) => message.state !== "accepted" || !isKnown(message));
    if (left.length === this.messages.length) return;
    this.messages = left;
    this.tell();
  }

  private async run(): Promise<void> {
    this.running = true;
    /** Sessions whose first message must wait: those behind it must not overtake it. */
    const held = new Set<string>();
    for (let next = this.next(held); next; next = this.next(held)) {
      const { localId, sessionId } = next;
      const result = await this.parts.post(next);
      if (result.kind === "later") {
        held.add(sessionId);
        continue;
      }
      if (!this.messages.some((message) => message.localId === localId)) continue;
      if (result.kind === "accepted") {
        this.change(localId, { state: "accepted", itemId: result.itemId });
        await this.parts.remove(localId).catch(() => undefined);
      } else {
        this.change(localId, { state: "refused", reason: result.reason });
        const refused = this.messages.find((message) => message.localId === localId);
        if (refused) await this.parts.store(refused).catch(() => undefined);
      }
    }
    this.running = false;
    if (held.size) this.timer = setTimeout(() => this.wake(), this.parts.retryMs ?? 2000);
  }

  private next(held: Set<string>): Outgoing | undefined {
    return this.messages.find((message) => message.state === "waiting" && !held.has(message.sessionId));
  }

  private change(localId: string, fields: Partial<Outgoing>): void {
    this.messages = this.messages.map((message) => (message.localId === localId ? { ...message, ...fields } : message));
    this.tell();
  }

  private tell(): void {
    this.parts.changed(this.messages);
  }
}
