import type { Approval, Content, Schemas } from "../api/types.ts";

export type Speaker = "person" | "agent" | "thought";

interface Base {
  /** Stable while the block is shown. */
  key: string;
  /** The entry that it begins with; 0 while it is streamed. */
  seq: number;
  at: number;
}

export interface MessageBlock extends Base {
  type: "message";
  speaker: Speaker;
  text: string;
  streaming: boolean;
  partial: boolean;
  attachments: Schemas["Attachment"][];
  from: string | null;
}

export interface ToolBlock extends Base {
  type: "tool";
  call: Schemas["ToolCall"];
  title: string;
  status: Schemas["ToolStatus"];
  content: ToolPart[];
  output: unknown;
  /** What the tool has written so far. Its result replaces it. */
  live: string;
  /** What the sub-agent that it runs has done. */
  children: Block[];
}

export interface PlanBlock extends Base {
  type: "plan";
  entries: Schemas["PlanEntry"][];
}

export interface ApprovalBlock extends Base {
  type: "approval";
  approval: Approval;
  resolved: Schemas["ApprovalResolved"] | null;
}

export interface NoteBlock extends Base {
  type: "note";
  content: Content;
}

export type Block = MessageBlock | ToolBlock | PlanBlock | ApprovalBlock | NoteBlock;
export type ToolPart = Schemas["TextBlock"] | Schemas["DiffBlock"];

/** Whether an entry about the session itself says something to a person. */
export function isNoted(content: Content): boolean {
  switch (content.kind) {
    case "turn_end":
      return content.reason !== "end_turn";
    case "queue_update":
      return content.state === "cancelled" || content.state === "failed" || content.state === "unknown";
    case "launch_end":
      return content.exitCode !== 0 && content.exitCode != null;
    case "status_update":
      return Boolean(content.error);
    case "mode_update":
    case "agent_switched":
    case "compacted":
    case "rewound":
    case "notice":
      return true;
    default:
      return false;
  }
}

/** The content of a tool call after an update. A diff of the same file replaces the earlier one. */
export function joinParts(old: readonly ToolPart[], added: readonly ToolPart[]): ToolPart[] {
  const paths = new Set(added.flatMap((part) => (part.type === "diff" ? [part.path] : [])));
  const texts = new Set(added.flatMap((part) => (part.type === "text" ? [part.text] : [])));
  const kept = old.filter((part) => (part.type === "diff" ? !paths.has(part.path) : !texts.has(part.text)));
  return [...kept, ...added];
}

export const isFinal = (status: Schemas["ToolStatus"]): boolean => status === "completed" || status === "failed";
