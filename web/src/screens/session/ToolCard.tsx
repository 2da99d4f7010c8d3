import { useState } from "preact/hooks";
import { cleanText } from "../../model/ansi.ts";
import type { Block, ToolBlock } from "../../model/blocks.ts";
import { t, type TextKey } from "../../texts/index.ts";
import { Code } from "../../ui/code.tsx";
import { Diff } from "../../ui/diff.tsx";
import { Icon, type IconName } from "../../ui/icons.tsx";
import { Markdown } from "../../ui/markdown.tsx";
import { TerminalOutput } from "../../ui/terminal.tsx";
import { ToolArguments } from "../inbox/ToolArguments.tsx";

const ICONS: Record<string, IconName> = { execute: "terminal", edit: "edit", read: "file", search: "search", fetch: "globe", delete: "trash", move: "file", think: "spark", other: "tool", switch_mode: "settings" };
const STATES: Record<string, TextKey> = { pending: "toolPending", in_progress: "toolRunning", completed: "toolDone", failed: "toolFailed" };
const OPEN_KINDS = new Set(["execute", "edit", "delete", "move"]);

/** A tool call: what it does, how far it is, and what came of it. */
export function ToolCard({ block }: { block: ToolBlock }) {
  const { call, status } = block;
  const hasDiff = block.content.some((part) => part.type === "diff");
  const [chosen, setChosen] = useState<boolean | null>(null);
  const isOpen = chosen ?? (OPEN_KINDS.has(call.toolKind) || hasDiff || status === "failed" || block.children.length > 0);
  const command = typeof call.input?.["command"] === "string" ? call.input["command"] : null;
  const rest = Object.fromEntries(Object.entries(call.input ?? {}).filter(([name]) => name !== "command" && !(hasDiff && CHANGE_FIELDS.has(name))));
  const texts = block.content.flatMap((part) => (part.type === "text" ? [part.text] : [])).join("\n").trimEnd();
  const output = block.live || texts || outputText(block.output);
  const plus = block.content.length;
  return (
    <section class={`tool ${status}`} aria-label={cleanText(block.title)} data-tool={call.toolKind} data-status={status}>
      <button type="button" class="tool-head" aria-expanded={isOpen} onClick={() => setChosen(!isOpen)}>
        <Icon name={ICONS[call.toolKind] ?? "tool"} size={16} />
        <span class="tool-title" dir="auto">{cleanText(block.title)}</span>
        {!isOpen && plus > 0 && <span class="preview" dir="auto">{cleanText(texts).split("\n")[0]}</span>}
        <span class="tool-state">{status === "completed" ? <Icon name="check" size={15} /> : status === "in_progress" ? <span class="spinner" /> : null}
          <span class={status === "completed" ? "offscreen" : ""}>{t(STATES[status] ?? "toolPending")}</span></span>
        <span class="fold"><Icon name="chevron" size={15} /></span>
      </button>
      {isOpen && (
        <div class="tool-body">
          {command !== null && <Code text={cleanText(command)} language="bash" label="shell" />}
          {!hasDiff && Object.keys(rest).length > 0 && <ToolArguments values={rest} />}
          {block.content.map((part, index) => part.type === "diff" && <Diff key={index} path={part.path} before={part.oldText ?? null} after={part.newText} />)}
          {output && <TerminalOutput text={output} running={status === "in_progress"} />}
          {call.locations?.length && !hasDiff && !command ? <p class="muted small paths">{call.locations.map((place) => <bdi key={place.path}>{cleanText(place.path)}{place.line != null && `:${place.line}`} </bdi>)}</p> : null}
          {block.children.length > 0 && <div class="nested" role="group" aria-label={t("subagent")}>{block.children.map((child) => <Child key={child.key} block={child} />)}</div>}
        </div>
      )}
    </section>
  );
}

const CHANGE_FIELDS = new Set(["file_path", "path", "old_string", "new_string", "content", "old", "new", "diff"]);

function outputText(output: unknown): string {
  if (output == null) return "";
  return typeof output === "string" ? output : JSON.stringify(output, null, 2);
}

function Child({ block }: { block: Block }) {
  if (block.type === "tool") return <ToolCard block={block} />;
  if (block.type !== "message") return null;
  return <div class={`child ${block.speaker}`}><Markdown text={block.text} /></div>;
}
