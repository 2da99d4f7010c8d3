import { signal } from "@preact/signals";
import { account } from "../api/account.ts";
import { post } from "../api/http.ts";
import { connection } from "../api/live.ts";
import { ApiError } from "../api/request.ts";
import type { NewAttachment, Schemas } from "../api/types.ts";
import { newId } from "../model/ids.ts";
import { Sender, type Outgoing, type SendResult } from "../model/sender.ts";
import { allMessages, deleteMessage, storeMessage } from "./outbox_store.ts";
import { messageOf } from "./toasts.ts";

/** What people have sent from this browser and the hub does not have yet, or has taken just now. */
export const outgoing = signal<readonly Outgoing[]>([]);

const sender = new Sender({
  post: sendOne,
  store: storeMessage,
  remove: deleteMessage,
  changed: (messages) => (outgoing.value = messages),
});

async function sendOne(message: Outgoing): Promise<SendResult> {
  try {
    const { text, localId, attachments, delivery } = message;
    const answer = await post<Schemas["MessageAccepted"]>(`/api/sessions/${message.sessionId}/messages`, { text, localId, attachments, delivery });
    return { kind: "accepted", itemId: answer.id };
  } catch (error) {
    if (error instanceof ApiError && (error.isTemporary || error.status === 401)) return { kind: "later" };
    return { kind: "refused", reason: messageOf(error) };
  }
}

/** Returns when the message is stored, so that a reload does not lose it. */
export function sendMessage(
  sessionId: string, text: string, attachments: NewAttachment[], delivery: Schemas["Delivery"] = "queue",
): Promise<void> {
  return sender.put({
    localId: newId(), sessionId, text, attachments, delivery, at: Date.now(), state: "waiting", reason: null, itemId: null,
  });
}

export const discardMessage = (localId: string): Promise<void> => sender.discard(localId);
export const retryMessage = (localId: string): void => sender.retry(localId);
export const settleMessages = (isKnown: (message: Outgoing) => boolean): void => sender.settle(isKnown);

export async function startOutbox(): Promise<void> {
  sender.load(await allMessages());
}

/** Nothing of one account is sent by another. What is stored stays. */
export const stopOutbox = (): void => sender.clear();

connection.subscribe((state) => {
  if (state === "online" && account.value) sender.wake();
});
