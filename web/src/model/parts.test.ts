import assert from "node:assert/strict";
import test from "node:test";
import type { QueueItem } from "../api/types.ts";
import { answerOf, choicesOf, completeAnswers } from "./answers.ts";
import { cleanText, parseAnsi } from "./ansi.ts";
import { diffLines } from "./diff.ts";
import { changeQueue } from "./queue.ts";

test("colours become styles and everything else that controls a terminal is removed", () => {
  const spans = parseAnsi("\x1b[1;31mred\x1b[0m plain \x1b[38;5;208morange\x1b[39m\x1b[48;2;1;2;3mback");
  assert.deepEqual(spans.map((span) => [span.text, span.color, span.background, span.bold]), [
    ["red", "red", null, true], [" plain ", null, null, false], ["orange", "#ff8700", null, false], ["back", null, "#010203", false],
  ]);
  const hostile = "\x1b]0;title\x07\x1b[2J\x1b[?1049ha\u202eb\x1b]8;;https://x\x1b\\c\x1bP1;2|x\x1b\\\x08d\x9b1m";
  assert.equal(parseAnsi(hostile).map((span) => span.text).join(""), "abcd1m");
  assert.equal(cleanText("a\x1b[31mb\u200b\u2066c\x00\n\td"), "abc\n\td");
});

test("a carriage return begins a line anew, as a progress bar does", () => {
  assert.equal(parseAnsi("10%\r50%\r100%\ndone\r\nend").map((span) => span.text).join(""), "100%\ndone\nend");
});

test("a diff has what was removed and added, with numbers and context", () => {
  const [hunk, ...more] = diffLines("a\nb\nc\nd\n", "a\nB\nc\nd\ne\n", 1);
  assert.equal(more.length, 0);
  assert.deepEqual(hunk?.lines.map((line) => `${line.sign}${line.text}${line.old ?? ""}/${line.new ?? ""}`), [
    " a1/1", "-b2/", "+B/2", " c3/3", " d4/4", "+e/5",
  ]);
  assert.deepEqual(diffLines("", "x\n").flatMap((one) => one.lines.map((line) => line.sign)), ["+"]);
  assert.deepEqual(diffLines("same\n", "same\n"), []);
  const large = Array.from({ length: 5000 }, (_, n) => `line ${n}`).join("\n");
  assert.equal(diffLines(large, large.replaceAll("line", "row")).length, 1);
});

test("changes of the queue move, add and remove messages", () => {
  const item = (id: string): QueueItem => ({ id, text: id, createdAt: 1, state: "queued", localId: null, attachments: [], sentFrom: null, identity: null, delivery: "queue", truncated: false });
  const queue = [item("a"), item("b"), item("c")];
  const changed = changeQueue(queue, [{ id: "c", position: 0, state: "handed_over" }, { id: "a" }, { id: "d", position: 2, item: item("d") }]);
  assert.deepEqual(changed.map((one) => `${one.id} ${one.state}`), ["c handed_over", "b queued", "d queued"]);
});

test("answers keep the agent's own options, and only an answer that allows approves", () => {
  const base = { id: "p", title: "T", createdAt: 1 };
  assert.deepEqual(choicesOf({ ...base, kind: "permission" }).map((choice) => choice.key), ["y", "a", "n", "x"]);
  const own = choicesOf({
    ...base, kind: "plan",
    options: [
      { id: "no", name: "No", kind: "reject_once" }, { id: "yes", name: "Yes", kind: "allow_once", mode: "acceptEdits" },
      { id: "also", name: "Yes, and ask", kind: "allow_once", mode: "default" },
    ],
  });
  assert.deepEqual(own.map((choice) => `${choice.key} ${choice.kind} ${choice.optionId}`), ["y allow yes", "1 allow also", "n deny no", "x stop null"]);
  for (const choice of own) assert.equal(answerOf(choice, "").verb, choice.kind === "allow" || choice.kind === "always" ? "approve" : "deny");
  const [first] = own;
  assert.ok(first);
  assert.deepEqual(answerOf(first, " because "), { verb: "approve", body: { optionId: "yes", message: "because" } });
});

test("questions are answered when every one has a choice or a text", () => {
  const questions = [{ id: "a", text: "A", choices: ["1", "2"] }, { id: "b", text: "B", multiple: true, choices: ["x", "y"], freeText: true }];
  assert.equal(completeAnswers(questions, { a: ["1"] }, {}), null);
  assert.deepEqual(completeAnswers(questions, { a: ["1"], b: ["x"] }, { b: "own" }), { a: ["1"], b: ["x", "own"] });
});
