import type { Content, Delta, Entry, Schemas } from "../api/types.ts";
import { isFinal, isNoted, joinParts, type ApprovalBlock, type Block, type MessageBlock, type ToolBlock } from "./blocks.ts";
import { StreamedText, countCharacters, takeCharacters } from "./streams.ts";

const MAX_LIVE_OUTPUT = 200_000;
const MAX_EARLY = 5000;

/**
 * A session's log as blocks for a person. Entries come in the order of the log, each once; deltas wait for the entry
 * that they follow. Finished blocks are in the order of the log, messages that are being streamed behind them.
 * A changed block is a new object, so that a view can compare.
 */
export class Conversation {
  entries: Entry[] = [];
  blocks: Block[] = [];
  /** The last entry that was added or read. */
  seq = 0;
  hasOlder = false;
  /** The ids that messages were sent with, as far as the log is loaded. */
  readonly localIds = new Set<string>();
  readonly itemIds = new Set<string>();
  private tools = new Map<string, ToolBlock>();
  private parents = new Map<string, string>();
  private approvals = new Map<string, ApprovalBlock>();
  private streams = new Map<string, MessageBlock>();
  private planKey: string | null = null;
  private text = new StreamedText();
  private early: Delta[] = [];

  /** Begins with the end of a log, up to entry `seq`. */
  load(entries: readonly Entry[], seq: number, hasOlder: boolean): void {
    this.entries = [];
    this.blocks = [];
    this.tools.clear();
    this.parents.clear();
    this.approvals.clear();
    this.streams.clear();
    this.planKey = null;
    this.text = new StreamedText();
    this.hasOlder = hasOlder;
    for (const entry of entries) this.append(entry);
    this.seq = Math.max(seq, this.seq, entries.at(-1)?.seq ?? 0);
    this.releaseDeltas();
  }

  /** Adds the entries before the first one. */
  prepend(older: readonly Entry[], hasOlder: boolean): void {
    this.rebuild([...older, ...this.entries], hasOlder);
  }

  /** Forgets the oldest entries if there are very many; they can be read again. Returns whether it did. */
  trim(limit: number, keep: number): boolean {
    if (this.entries.length <= limit) return false;
    this.rebuild(this.entries.slice(-keep), true);
    return true;
  }

  add(entry: Entry): void {
    if (entry.seq <= this.seq) return;
    this.seq = entry.seq;
    this.append(entry);
    this.releaseDeltas();
  }

  addDelta(delta: Delta): void {
    this.early.push(delta);
    if (this.early.length > MAX_EARLY) this.early.shift();
    this.releaseDeltas();
  }

  /** Entries up to this one were hidden for everybody. */
  clear(seq: number): void {
    this.rebuild(this.entries.filter((entry) => entry.seq > seq), false);
  }

  private releaseDeltas(): void {
    let first = this.early[0];
    while (first && (first.after ?? 0) <= this.seq) {
      this.early.shift();
      this.showDelta(first);
      first = this.early[0];
    }
  }

  private rebuild(entries: Entry[], hasOlder: boolean): void {
    const { streams, text } = this;
    this.streams = new Map();
    const { seq, early } = this;
    this.load(entries, seq, hasOlder);
    this.early = early;
    this.text = text;
    for (const entry of entries) if ("messageId" in entry.content) text.complete(entry.content.messageId);
    for (const [id, block] of streams) {
      this.streams.set(id, block);
      this.blocks.push(block);
    }
  }

  private append(entry: Entry): void {
    this.entries.push(entry);
    this.seq = Math.max(this.seq, entry.seq);
    if (entry.localId) this.localIds.add(entry.localId);
    const { content } = entry;
    switch (content.kind) {
      case "user_message":
        this.itemIds.add(content.itemId);
        this.put({
          type: "message", key: `e${entry.seq}`, seq: entry.seq, at: entry.createdAt, speaker: "person", text: content.text,
          streaming: false, partial: false, attachments: content.attachments ?? [], from: content.sentFrom ?? null,
        });
        break;
      case "agent_message":
      case "agent_thought":
        this.complete(entry, content);
        break;
      case "tool_call":
        this.addTool(entry, content);
        break;
      case "tool_call_update":
        this.updateTool(content);
        break;
      case "plan":
        this.showPlan(entry, content.entries ?? []);
        break;
      case "approval_requested": {
        const block: ApprovalBlock = {
          type: "approval", key: `e${entry.seq}`, seq: entry.seq, at: entry.createdAt, approval: content.approval, resolved: null,
        };
        this.approvals.set(content.approval.id, block);
        this.put(block);
        break;
      }
      case "approval_resolved": {
        const asked = this.approvals.get(content.approvalId);
        if (asked) {
          const answered = { ...asked, resolved: content };
          this.approvals.set(content.approvalId, answered);
          this.replace(answered);
        }
        break;
      }
      case "rewound":
        this.rewind(content.firstSeq, entry);
        break;
      case "turn_end":
        this.planKey = null;
        for (const block of this.streams.values()) this.blocks = this.blocks.filter((other) => other.key !== block.key);
        this.streams.clear();
        this.note(entry);
        break;
      default:
        this.note(entry);
    }
  }

  private note(entry: Entry): void {
    if (isNoted(entry.content)) this.put({ type: "note", key: `e${entry.seq}`, seq: entry.seq, at: entry.createdAt, content: entry.content });
  }

  private rewind(firstSeq: number, entry: Entry): void {
    const kept = this.entries.filter((other) => other.seq < firstSeq);
    if (kept.length < this.entries.length - 1) {
      this.early = [];
      this.streams.clear();
      this.rebuild(kept, this.hasOlder);
    }
    if (this.entries.at(-1) !== entry) this.entries.push(entry);
    this.planKey = null;
    this.note(entry);
  }

  /** Places a finished block before those that are being streamed, or below the tool call that it is part of. */
  private put(block: Block, parent?: string | null): void {
    const owner = parent ? this.tools.get(parent) : undefined;
    if (owner && parent) {
      this.parents.set(block.key, parent);
      this.changeTool({ ...owner, children: [...owner.children, block] });
      return;
    }
    const streaming = this.streams.size;
    if (streaming) this.blocks = [...this.blocks.slice(0, -streaming), block, ...this.blocks.slice(-streaming)];
    else this.blocks.push(block);
  }

  private replace(block: Block): void {
    const parent = this.parents.get(block.key);
    const owner = parent === undefined ? undefined : this.tools.get(parent);
    if (owner) {
      this.changeTool({ ...owner, children: owner.children.map((child) => (child.key === block.key ? block : child)) });
      return;
    }
    const index = this.blocks.findLastIndex((other) => other.key === block.key);
    if (index >= 0) this.blocks[index] = block;
  }

  private changeTool(tool: ToolBlock): void {
    this.tools.set(tool.call.toolCallId, tool);
    this.replace(tool);
  }

  private complete(entry: Entry, content: Schemas["AgentMessage"] | Schemas["AgentThought"]): void {
    this.text.complete(content.messageId);
    const streamed = this.streams.get(content.messageId);
    if (streamed) {
      this.streams.delete(content.messageId);
      this.blocks = this.blocks.filter((block) => block.key !== streamed.key);
    }
    this.put({
      // The key of the streamed block, so that what is drawn stays.
      type: "message", key: streamed?.key ?? `m${content.messageId}`, seq: entry.seq, at: entry.createdAt,
      speaker: content.kind === "agent_thought" ? "thought" : "agent", text: content.text, streaming: false,
      partial: content.partial ?? false, attachments: [], from: null,
    }, content.parentToolCallId);
  }

  private addTool(entry: Entry, call: Schemas["ToolCall"]): void {
    const tool: ToolBlock = {
      type: "tool", key: `e${entry.seq}`, seq: entry.seq, at: entry.createdAt, call, title: call.title, status: call.status,
      content: call.content ?? [], output: null, live: "", children: [],
    };
    this.tools.set(call.toolCallId, tool);
    this.put(tool, call.parentToolCallId);
  }

  private updateTool(update: Schemas["ToolCallUpdate"]): void {
    const tool = this.tools.get(update.toolCallId);
    if (!tool) return;
    const status = update.status ?? tool.status;
    this.changeTool({
      ...tool, status, title: update.title ?? tool.title, content: joinParts(tool.content, update.content ?? []),
      output: update.output ?? tool.output, live: isFinal(status) ? "" : tool.live,
    });
  }

  private showPlan(entry: Entry, entries: Schemas["PlanEntry"][]): void {
    const shown = this.blocks.findLast((block) => block.key === this.planKey);
    if (shown?.type === "plan") {
      this.replace({ ...shown, entries });
      return;
    }
    this.planKey = `e${entry.seq}`;
    this.put({ type: "plan", key: this.planKey, seq: entry.seq, at: entry.createdAt, entries });
  }

  private showDelta(delta: Delta): void {
    if (delta.kind === "tool_output") {
      this.showOutput(delta);
      return;
    }
    if (delta.kind === "tool_input") return;
    const fresh = this.text.add(delta);
    if (!fresh) return;
    const streamed = this.streams.get(delta.messageId);
    if (streamed) {
      const longer = { ...streamed, text: streamed.text + fresh };
      this.streams.set(delta.messageId, longer);
      this.replace(longer);
      return;
    }
    const block: MessageBlock = {
      type: "message", key: `m${delta.messageId}`, seq: 0, at: Date.now(), speaker: delta.kind === "agent_thought" ? "thought" : "agent",
      text: fresh, streaming: true, partial: false, attachments: [], from: null,
    };
    this.streams.set(delta.messageId, block);
    this.blocks.push(block);
  }

  private showOutput(delta: Delta): void {
    const tool = this.tools.get(delta.messageId);
    const offset = delta.offset ?? 0;
    if (!tool || isFinal(tool.status)) return;
    const length = countCharacters(tool.live);
    if (offset > length) return;
    const live = (offset === length ? tool.live : takeCharacters(tool.live, offset)) + delta.text;
    if (live.length <= MAX_LIVE_OUTPUT) this.changeTool({ ...tool, live });
  }

  /** The message that a person sent with this entry, to rewind to or fork at. */
  find(kind: Content["kind"], seq: number): Entry | undefined {
    return this.entries.find((entry) => entry.seq === seq && entry.content.kind === kind);
  }
}
