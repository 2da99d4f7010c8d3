import type { Schemas } from "../../api/types.ts";
import { cleanText } from "../../model/ansi.ts";
import type { ApprovalBlock, NoteBlock } from "../../model/blocks.ts";
import { t, type TextKey } from "../../texts/index.ts";
import { Icon } from "../../ui/icons.tsx";
import { outcomeText } from "../inbox/ApprovalCard.tsx";

interface Said {
  text: string;
  bad: boolean;
  detail?: string | null;
}

/** Something about the session itself that a person should know. */
export function Note({ block }: { block: NoteBlock }) {
  const said = describe(block.content);
  if (!said) return null;
  return (
    <p class={said.bad ? "note bad" : "note"} role={said.bad ? "alert" : undefined} data-note={block.content.kind}>
      <span dir="auto">{cleanText(said.text)}</span>
      {said.detail && <span class="note-detail" dir="auto">{cleanText(said.detail)}</span>}
    </p>
  );
}

function describe(content: NoteBlock["content"]): Said | null {
  switch (content.kind) {
    case "turn_end":
      return { text: t("turnEnded", { reason: t(`reason_${content.reason}` as TextKey) }), bad: content.reason !== "cancelled", detail: content.error ?? null };
    case "queue_update":
      return { text: t(`message_${content.state}` as TextKey), bad: content.state !== "cancelled", detail: content.reason ?? null };
    case "launch_end":
      return { text: t("launchEnded", { reason: content.reason }), bad: true, detail: content.stderr?.trim().split("\n").slice(-4).join("\n") ?? null };
    case "status_update":
      return { text: t(content.status === "failed" ? "failed" : "stopped"), bad: true, detail: content.error ?? null };
    case "mode_update": {
      const what = [content.permissionMode, content.model, content.effort].filter(Boolean).join(", ");
      return { text: withName(t("nowSet", { what }), nameOf(content.identity)), bad: false };
    }
    case "agent_switched":
      return { text: withName(t("nowSet", { what: [content.agent, content.model].filter(Boolean).join(", ") }), nameOf(content.identity)), bad: false };
    case "compacted":
      return { text: t("compacted"), bad: false };
    case "rewound":
      return { text: withName(t("rewoundNote"), content.by ?? null), bad: false };
    case "notice":
      return { text: content.text, bad: content.level === "error" };
    default:
      return null;
  }
}

const nameOf = (identity: Schemas["Identity"] | null | undefined): string | null => identity?.label ?? null;
const withName = (text: string, name: string | null): string => (name ? `${text} ${t("by", { name })}` : text);

/** That something was asked, and how it ended. While it is open, it is answered below the log. */
export function ApprovalNote({ block }: { block: ApprovalBlock }) {
  const { approval, resolved } = block;
  const allowed = resolved?.outcome === "approved" || resolved?.outcome === "approved_for_session";
  const answers = Object.values(resolved?.answers ?? {}).map((texts) => texts.join(", ")).join("; ");
  const outcome = resolved ? (answers ? t("outcomeAnswered") : outcomeText(resolved.outcome)) : t("waitsForYou");
  return (
    <p class={`note decision ${resolved ? (allowed ? "allowed" : "denied") : "open"}`} data-outcome={resolved?.outcome ?? "open"}>
      <Icon name={resolved ? (allowed ? "check" : "close") : "question"} size={15} />
      <span><bdi>{cleanText(approval.title)}</bdi>: {outcome}{resolved?.by && ` ${t("by", { name: cleanText(resolved.by) })}`}</span>
      {(answers || resolved?.message) && <span class="note-detail" dir="auto">{cleanText(answers || resolved?.message || "")}</span>}
    </p>
  );
}
