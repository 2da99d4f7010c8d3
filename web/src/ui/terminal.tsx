import { useMemo, useState } from "preact/hooks";
import { parseAnsi } from "../model/ansi.ts";
import { t } from "../texts/index.ts";
import { memo } from "./memo.ts";

const SHOWN_LINES = 14;

/** Output of a program with its colours. Long output shows its end while it runs, its beginning afterwards. */
export const TerminalOutput = memo(function TerminalOutput({ text, running }: { text: string; running: boolean }) {
  const [whole, setWhole] = useState(false);
  const lines = useMemo(() => text.replace(/\n+$/, "").split("\n"), [text]);
  const isLong = lines.length > SHOWN_LINES + 3;
  const shown = !isLong || whole ? lines : running ? lines.slice(-SHOWN_LINES) : lines.slice(0, SHOWN_LINES);
  const joined = shown.join("\n");
  const spans = useMemo(() => parseAnsi(joined), [joined]);
  return (
    <div class="terminal">
      <pre tabIndex={0} dir="ltr">
        {spans.map((span, index) => (
          <span key={index} class={classOf(span)} style={styleOf(span)}>{span.text}</span>
        ))}
      </pre>
      {isLong && (
        <button type="button" class="link" onClick={() => setWhole(!whole)}>
          {whole ? t("showLess") : t("showAll", { n: lines.length })}
        </button>
      )}
    </div>
  );
});

type Spans = ReturnType<typeof parseAnsi>[number];

function classOf(span: Spans): string {
  return [
    span.color && !span.color.startsWith("#") ? `fg-${span.color}` : "", span.background && !span.background.startsWith("#") ? `bg-${span.background}` : "",
    span.bold ? "bold" : "", span.dim ? "dim" : "", span.italic ? "italic" : "", span.underline ? "underline" : "",
  ].filter(Boolean).join(" ");
}

function styleOf(span: Spans): Record<string, string> {
  const style: Record<string, string> = {};
  if (span.color?.startsWith("#")) style["color"] = span.color;
  if (span.background?.startsWith("#")) style["backgroundColor"] = span.background;
  return style;
}
