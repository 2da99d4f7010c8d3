import type { Approval, Schemas } from "../api/types.ts";

/** One of the answers that a person can give by one button or key. */
export interface Choice {
  key: string;
  /** A text of the agent, or null for the page's own. */
  name: string | null;
  kind: "allow" | "always" | "deny" | "stop";
  optionId: string | null;
  mode: Schemas["PermissionMode"] | null;
}

const KEYS: Record<string, string> = { allow_once: "y", allow_always: "a", reject_once: "n" };

/** The answers to a permission or a plan, the usual one first. The agent's own options keep their names. */
export function choicesOf(approval: Approval): Choice[] {
  const free = { ...KEYS };
  let number = 0;
  const own = (approval.options ?? []).map((option): Choice => {
    const key = free[option.kind] ?? String(++number);
    delete free[option.kind];
    const allows = option.kind === "allow_once" || option.kind === "allow_always";
    return {
      key, name: option.name, kind: allows ? (option.kind === "allow_always" ? "always" : "allow") : "deny",
      optionId: option.id, mode: option.mode ?? null,
    };
  });
  const plain = (key: string, kind: Choice["kind"]): Choice => ({ key, name: null, kind, optionId: null, mode: null });
  const choices = own.some((choice) => choice.kind === "allow" || choice.kind === "always") ? own : [plain("y", "allow"), ...own];
  if (!approval.options?.length && approval.kind === "permission") choices.push(plain("a", "always"));
  if (!choices.some((choice) => choice.kind === "deny")) choices.push(plain("n", "deny"));
  choices.push(plain("x", "stop"));
  const order = ["allow", "always", "deny", "stop"];
  return choices.sort((one, other) => order.indexOf(one.kind) - order.indexOf(other.kind));
}

export type Answer = { verb: "approve"; body: Schemas["Approve"] } | { verb: "deny"; body: Schemas["Deny"] };

/** What to send for a choice. Nothing but a choice that allows approves. */
export function answerOf(choice: Choice, message: string, answers: Record<string, string[]> | null = null): Answer {
  const note = message.trim() ? { message: message.trim() } : {};
  const option = choice.optionId === null ? {} : { optionId: choice.optionId };
  if (choice.kind === "allow" || choice.kind === "always") {
    const decision = choice.kind === "always" ? { decision: "approved_for_session" as const } : {};
    return { verb: "approve", body: { ...decision, ...option, ...note, ...(answers ? { answers } : {}) } };
  }
  return { verb: "deny", body: { ...(choice.kind === "stop" ? { decision: "abort" as const } : {}), ...option, ...note } };
}

/** The answers to all questions, or null if one is missing. */
export function completeAnswers(
  questions: readonly Schemas["Question"][], chosen: Record<string, string[]>, written: Record<string, string>,
): Record<string, string[]> | null {
  const result: Record<string, string[]> = {};
  for (const question of questions) {
    const own = written[question.id]?.trim();
    const picked = chosen[question.id] ?? [];
    const texts = own ? (question.multiple ? [...picked, own] : [own]) : picked;
    if (!texts.length) return null;
    result[question.id] = texts;
  }
  return result;
}
