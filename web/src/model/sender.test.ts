import assert from "node:assert/strict";
import test from "node:test";
import { Sender, type Outgoing, type SendResult } from "./sender.ts";

const message = (localId: string, sessionId = "s"): Outgoing => ({
  localId, sessionId, text: localId, attachments: [], delivery: "queue", at: Number(localId.slice(1)), state: "waiting", reason: null, itemId: null,
});

function build(answers: SendResult[]): { sender: Sender; sent: string[]; stored: Map<string, Outgoing>; shown: () => readonly Outgoing[]; idle: () => Promise<void> } {
  const sent: string[] = [];
  const stored = new Map<string, Outgoing>();
  let shown: readonly Outgoing[] = [];
  const sender = new Sender({
    post: async (one) => {
      assert.ok(stored.has(one.localId), "it is stored before it is sent");
      sent.push(one.localId);
      return answers.shift() ?? { kind: "accepted", itemId: `item-${one.localId}` };
    },
    store: async (one) => void stored.set(one.localId, one),
    remove: async (localId) => void stored.delete(localId),
    changed: (messages) => (shown = messages),
    retryMs: 5,
  });
  const idle = async (): Promise<void> => {
    while (shown.some((one) => one.state === "waiting")) await new Promise((resolve) => setTimeout(resolve, 1));
    await new Promise((resolve) => setTimeout(resolve, 1));
  };
  return { sender, sent, stored, shown: () => shown, idle };
}

test("messages are sent in order, and again under the same id until the hub has answered", async () => {
  const { sender, sent, stored, shown, idle } = build([{ kind: "later" }, { kind: "later" }]);
  await sender.put(message("m1"));
  await sender.put(message("m2"));
  await idle();
  assert.deepEqual([...new Set(sent)], ["m1", "m2"]);
  assert.equal(sent.at(-1), "m2");
  assert.ok(sent.indexOf("m2") > sent.lastIndexOf("m1"));
  assert.equal(stored.size, 0);
  assert.deepEqual(shown().map((one) => one.state), ["accepted", "accepted"]);
  sender.settle((one) => one.itemId === "item-m1");
  assert.deepEqual(shown().map((one) => one.localId), ["m2"]);
});

test("a session that must wait does not hold up another", async () => {
  const { sender, sent, stored, idle } = build([{ kind: "later" }]);
  for (const one of [message("m1", "one"), message("m2", "two")]) stored.set(one.localId, one);
  sender.load([...stored.values()]);
  await idle();
  assert.deepEqual(sent, ["m1", "m2", "m1"]);
});

test("what the hub refuses stays, says why, and can be tried again or discarded", async () => {
  const { sender, stored, shown, idle } = build([{ kind: "refused", reason: "too large" }, { kind: "refused", reason: "too large" }]);
  await sender.put(message("m1"));
  await idle();
  assert.deepEqual(shown().map((one) => [one.state, one.reason]), [["refused", "too large"]]);
  assert.equal(stored.get("m1")?.state, "refused");
  sender.retry("m1");
  await idle();
  await sender.discard("m1");
  assert.deepEqual([shown().length, stored.size], [0, 0]);
});

test("what one account has not sent is not sent by the next one", async () => {
  const { sender, sent, stored, shown, idle } = build([{ kind: "later" }]);
  await sender.put(message("m1"));
  sender.clear();
  await idle();
  sender.wake();
  await idle();
  assert.deepEqual([sent, shown().length, stored.size], [["m1"], 0, 1]);
});

test("what was stored before a reload is sent after it", async () => {
  const { sender, sent, stored, idle } = build([]);
  for (const one of [message("m1"), message("m2")]) stored.set(one.localId, one);
  sender.load([...stored.values()]);
  await idle();
  assert.deepEqual(sent, ["m1", "m2"]);
});
