import type { Block, MessageBlock } from "../../model/blocks.ts";
import { cleanText } from "../../model/ansi.ts";
import { clock, t } from "../../texts/index.ts";
import { CopyButton } from "../../ui/code.tsx";
import { Icon } from "../../ui/icons.tsx";
import { Markdown } from "../../ui/markdown.tsx";
import { memo } from "../../ui/memo.ts";
import { MessageMenu } from "./MessageMenu.tsx";
import { ApprovalNote, Note } from "./Note.tsx";
import { ToolCard } from "./ToolCard.tsx";

interface Props {
  block: Block;
  sessionId: string;
  agent: string;
  onEdit: (text: string) => void;
}

/** One block of the log. It is drawn again only if it has changed. */
export const BlockView = memo(function BlockView({ block, sessionId, agent, onEdit }: Props) {
  return (
    <div class={`block of-${block.type}`} data-key={block.key} data-seq={block.seq || undefined}>
      {block.type === "message" ? <Message block={block} sessionId={sessionId} agent={agent} onEdit={onEdit} />
        : block.type === "tool" ? <ToolCard block={block} />
        : block.type === "plan" ? <PlanList block={block} />
        : block.type === "approval" ? <ApprovalNote block={block} />
        : <Note block={block} />}
    </div>
  );
}, (before, after) => before.block === after.block && before.agent === after.agent);

function Message({ block, sessionId, agent, onEdit }: Props & { block: MessageBlock }) {
  if (block.speaker === "person") {
    return (
      <article class="said" aria-label={block.from ?? t("message")} data-speaker="person">
        <div class="bubble">
          <div class="plain" dir="auto">{cleanText(block.text)}</div>
          {block.attachments.length > 0 && (
            <ul class="attachments">{block.attachments.map((file, index) => <li key={index}><Icon name="file" size={14} /><bdi>{cleanText(file.name)}</bdi></li>)}</ul>
          )}
        </div>
        <div class="said-side">
          <time title={clock(block.at)}>{new Date(block.at).toLocaleTimeString([], { hour: "2-digit", minute: "2-digit" })}</time>
          <MessageMenu sessionId={sessionId} seq={block.seq} text={block.text} onEdit={onEdit} />
        </div>
      </article>
    );
  }
  if (block.speaker === "thought") return <Thought block={block} />;
  return (
    <article class={block.streaming ? "answer streaming" : "answer"} aria-label={agent} data-speaker="agent">
      <Markdown text={block.text} />
      {block.partial && <span class="tag">{t("partial")}</span>}
      {!block.streaming && <div class="answer-side"><CopyButton text={block.text} label={t("copyMessage")} /></div>}
    </article>
  );
}

function Thought({ block }: { block: MessageBlock }) {
  const first = cleanText(block.text).split("\n").find((line) => line.trim()) ?? "";
  return (
    <details class="thought">
      <summary><Icon name="spark" size={15} /><span>{t(block.streaming ? "thinking" : "thought")}</span><span class="preview" dir="auto">{first}</span></summary>
      <Markdown text={block.text} />
    </details>
  );
}

function PlanList({ block }: { block: Extract<Block, { type: "plan" }> }) {
  const done = block.entries.filter((entry) => entry.status === "completed").length;
  return (
    <section class="plan-card" aria-label={t("plan")}>
      <header><b>{t("plan")}</b><span class="muted">{t("planDone", { done, all: block.entries.length })}</span></header>
      <ul>
        {block.entries.map((entry, index) => (
          <li key={index} class={entry.status}>
            <span class="box" role="img" aria-label={entry.status ?? "pending"}>{entry.status === "completed" && <Icon name="check" size={13} />}</span>
            <span dir="auto">{cleanText(entry.content)}</span>
          </li>
        ))}
      </ul>
    </section>
  );
}
