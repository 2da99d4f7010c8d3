import { useMemo, useState } from "preact/hooks";
import { countChanges, diffLines } from "../model/diff.ts";
import { cleanText } from "../model/ansi.ts";
import { t } from "../texts/index.ts";
import { Icon } from "./icons.tsx";
import { memo } from "./memo.ts";

const SHOWN_LINES = 40;

/** The changed lines of a file. */
export const Diff = memo(function Diff({ path, before, after }: { path: string; before: string | null; after: string }) {
  const hunks = useMemo(() => diffLines(cleanText(before ?? ""), cleanText(after)), [before, after]);
  const [whole, setWhole] = useState(false);
  const { added, removed } = countChanges(hunks);
  const lines = hunks.flatMap((hunk, index) => (index ? [null, ...hunk.lines] : hunk.lines));
  const shown = whole ? lines : lines.slice(0, SHOWN_LINES);
  return (
    <figure class="diff">
      <figcaption>
        <Icon name="file" size={15} />
        <span class="path" title={cleanText(path)}><bdi>{cleanText(path)}</bdi></span>
        {before === null && <span class="tag">{t("newFile")}</span>}
        <span class="plus" aria-label={t("added", { n: added })}>+{added}</span>
        <span class="minus" aria-label={t("removed", { n: removed })}>−{removed}</span>
      </figcaption>
      <div class="lines" tabIndex={0} dir="ltr" role="group" aria-label={cleanText(path)}>
        {shown.map((line, index) =>
          line === null ? <div key={index} class="skip">⋯</div> : (
            <div key={index} class={line.sign === "+" ? "add" : line.sign === "-" ? "del" : "same"}>
              <span class="number">{line.new ?? line.old}</span>
              <span class="sign">{line.sign}</span>
              <code>{line.text || " "}</code>
            </div>
          ),
        )}
      </div>
      {lines.length > SHOWN_LINES && (
        <button type="button" class="link" onClick={() => setWhole(!whole)}>{whole ? t("showLess") : t("showAll", { n: lines.length })}</button>
      )}
    </figure>
  );
});
