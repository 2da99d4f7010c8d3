import assert from "node:assert/strict";
import test from "node:test";
import type { Content, Delta, Entry } from "../api/types.ts";
import type { Block } from "./blocks.ts";
import { Conversation } from "./conversation.ts";

let time = 1_790_000_000_000;
const entry = (seq: number, content: Content): Entry => ({ id: `s:${seq}`, seq, role: "agent", createdAt: time++, content });
const user = (seq: number, text: string): Entry => entry(seq, { kind: "user_message", itemId: `i${seq}`, text });
const agent = (seq: number, messageId: string, text: string): Entry => entry(seq, { kind: "agent_message", messageId, text });
const delta = (messageId: string, text: string, offset = 0, after = 0): Delta => ({ messageId, kind: "agent_message", text, offset, after });
const texts = (blocks: readonly Block[]): string[] => blocks.flatMap((block) => (block.type === "message" ? [block.text] : []));

test("a streamed message becomes the complete one and keeps its key", () => {
  const talk = new Conversation();
  talk.load([user(1, "hi")], 1, false);
  talk.addDelta(delta("m1", "Hel", 0, 1));
  talk.addDelta(delta("m1", "lo", 3, 1));
  assert.deepEqual(texts(talk.blocks), ["hi", "Hello"]);
  const key = talk.blocks.at(-1)?.key;
  talk.add(agent(2, "m1", "Hello!"));
  assert.deepEqual(texts(talk.blocks), ["hi", "Hello!"]);
  assert.equal(talk.blocks.at(-1)?.key, key);
  talk.addDelta(delta("m1", "late", 0, 1));
  assert.deepEqual(texts(talk.blocks), ["hi", "Hello!"]);
});

test("an entry is added once, and deltas wait for the entry before them", () => {
  const talk = new Conversation();
  talk.load([], 0, false);
  talk.addDelta(delta("m1", "answer", 0, 2));
  assert.deepEqual(texts(talk.blocks), []);
  talk.add(user(2, "question"));
  talk.add(user(2, "question"));
  assert.deepEqual(texts(talk.blocks), ["question", "answer"]);
});

test("offsets count characters, not units of UTF-16", () => {
  const talk = new Conversation();
  talk.load([], 0, false);
  talk.addDelta(delta("m1", "🐬🐋"));
  talk.addDelta(delta("m1", "🐋!", 1));
  talk.addDelta(delta("m1", "?", 3));
  assert.deepEqual(texts(talk.blocks), ["🐬🐋!?"]);
});

test("a message whose beginning was missed is marked, and completed later", () => {
  const talk = new Conversation();
  talk.load([], 0, false);
  talk.addDelta(delta("m1", "world", 6));
  assert.deepEqual(texts(talk.blocks), ["… world"]);
  talk.add(agent(1, "m1", "hello world"));
  assert.deepEqual(texts(talk.blocks), ["hello world"]);
});

test("a rewind removes the messages, also those that are streamed, and says so", () => {
  const talk = new Conversation();
  talk.load([user(1, "a"), agent(2, "m1", "b"), user(3, "c"), agent(4, "m2", "d")], 4, false);
  talk.addDelta(delta("m3", "e", 0, 4));
  talk.add(entry(5, { kind: "rewound", firstSeq: 3, files: { status: "full", restored: [], skipped: [], reason: null } }));
  assert.deepEqual(texts(talk.blocks), ["a", "b"]);
  assert.equal(talk.blocks.at(-1)?.type, "note");
  talk.add(user(6, "again"));
  assert.deepEqual(texts(talk.blocks), ["a", "b", "again"]);
});

test("older entries come before, and complete the tool calls that they began", () => {
  const talk = new Conversation();
  talk.load([entry(5, { kind: "tool_call_update", toolCallId: "t", status: "completed" }), user(6, "z")], 6, true);
  talk.prepend([user(3, "y"), entry(4, { kind: "tool_call", toolCallId: "t", title: "T", toolKind: "read", status: "pending" })], false);
  assert.deepEqual(talk.blocks.map((block) => block.type), ["message", "tool", "message"]);
  const tool = talk.blocks[1];
  assert.equal(tool?.type === "tool" && tool.status, "completed");
});

test("what a sub-agent does is below the call that runs it", () => {
  const talk = new Conversation();
  talk.load([
    entry(1, { kind: "tool_call", toolCallId: "task", title: "Task", toolKind: "other", status: "in_progress" }),
    entry(2, { kind: "tool_call", toolCallId: "in", title: "Read", toolKind: "read", status: "pending", parentToolCallId: "task" }),
    entry(3, { kind: "agent_message", messageId: "m", text: "found", parentToolCallId: "task" }),
    entry(4, { kind: "tool_call_update", toolCallId: "in", status: "completed" }),
  ], 4, false);
  const [task] = talk.blocks;
  assert.equal(talk.blocks.length, 1);
  assert.ok(task?.type === "tool");
  assert.deepEqual(task.children.map((child) => (child.type === "tool" ? child.status : child.type)), ["completed", "message"]);
});

test("output of a tool is shown live and replaced by its result", () => {
  const talk = new Conversation();
  talk.load([entry(1, { kind: "tool_call", toolCallId: "t", title: "T", toolKind: "execute", status: "in_progress" })], 1, false);
  talk.addDelta({ messageId: "t", kind: "tool_output", text: "one\n", offset: 0, after: 1 });
  talk.addDelta({ messageId: "t", kind: "tool_output", text: "two\n", offset: 4, after: 1 });
  const live = talk.blocks[0];
  assert.equal(live?.type === "tool" && live.live, "one\ntwo\n");
  talk.add(entry(2, { kind: "tool_call_update", toolCallId: "t", status: "completed", content: [{ type: "text", text: "two\n" }] }));
  const done = talk.blocks[0];
  assert.ok(done?.type === "tool");
  assert.equal(done.live, "");
  assert.notEqual(done, live);
});

test("a plan is one list for a turn, and an approval knows its outcome", () => {
  const talk = new Conversation();
  talk.load([
    entry(1, { kind: "plan", entries: [{ content: "a" }] }),
    entry(2, { kind: "approval_requested", approval: { id: "p", kind: "permission", title: "T", createdAt: 1 } }),
    entry(3, { kind: "plan", entries: [{ content: "a", status: "completed" }] }),
    entry(4, { kind: "approval_resolved", approvalId: "p", outcome: "denied" }),
    entry(5, { kind: "turn_end", turnId: "x", reason: "end_turn" }),
    entry(6, { kind: "plan", entries: [{ content: "b" }] }),
  ], 6, false);
  assert.deepEqual(talk.blocks.map((block) => block.type), ["plan", "approval", "plan"]);
  const asked = talk.blocks[1];
  assert.equal(asked?.type === "approval" && asked.resolved?.outcome, "denied");
});

test("very many entries are trimmed to the last ones, which can be read again", () => {
  const talk = new Conversation();
  talk.load([], 0, false);
  for (let seq = 1; seq <= 50; seq++) talk.add(user(seq, `${seq}`));
  assert.equal(talk.trim(40, 10), true);
  assert.deepEqual([talk.entries.length, talk.blocks.length, talk.hasOlder, talk.seq], [10, 10, true, 50]);
});
