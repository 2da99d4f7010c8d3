import { useEffect, useState } from "preact/hooks";
import { get } from "../../api/http.ts";
import type { Schemas } from "../../api/types.ts";
import { machines } from "../../state/sessions.ts";
import { messageOf } from "../../state/toasts.ts";
import { shortNumber, t } from "../../texts/index.ts";
import { Icon } from "../../ui/icons.tsx";

const GROUPS = [["day", "byDay"], ["model", "byModel"], ["agent", "byAgent"], ["machine", "byMachine"]] as const;
type Group = Schemas["UsageGroup"];

const tokensOf = (group: Pick<Group, "inputTokens" | "outputTokens" | "cacheReadTokens" | "cacheWriteTokens">): number =>
  group.inputTokens + group.outputTokens + group.cacheReadTokens + group.cacheWriteTokens;

/** Tokens and cost of the last 30 days. */
export function Usage() {
  const [by, setBy] = useState<(typeof GROUPS)[number][0]>("day");
  const [answer, setAnswer] = useState<Schemas["UsageResponse"] | null>(null);
  const [problem, setProblem] = useState<string | null>(null);
  useEffect(() => {
    let current = true;
    const from = new Date(Date.now() - 29 * 86_400_000).toISOString().slice(0, 10);
    get<Schemas["UsageResponse"]>(`/api/usage?groupBy=${by}&from=${from}`).then(
      (found) => { if (current) { setAnswer(found); setProblem(null); } },
      (error: unknown) => { if (current) setProblem(messageOf(error)); },
    );
    return () => { current = false; };
  }, [by]);
  const groups = answer ? (by === "day" ? [...answer.groups].reverse() : answer.groups) : [];
  const most = Math.max(1, ...groups.map(tokensOf));
  const nameOf = (group: Group): string => (by === "machine" && group.key ? (machines.value.get(group.key)?.name ?? machines.value.get(group.key)?.host ?? group.key) : group.key) ?? t("unnamed");
  return (
    <div class="page narrow">
      <header class="page-head"><div><h1>{t("usage")}</h1><p class="muted">{t("lastDays", { n: 30 })}</p></div>
        <div class="segments" role="group" aria-label={t("groupBy")}>
          {GROUPS.map(([value, text]) => <button type="button" key={value} aria-pressed={by === value} onClick={() => setBy(value)}>{t(text)}</button>)}
        </div>
      </header>
      {problem && <p class="problem" role="alert">{problem}</p>}
      {!answer && !problem && <div class="skeleton" role="status" aria-label={t("loading")} />}
      {answer && answer.total.turns === 0 && <div class="empty"><Icon name="usage" size={40} /><h2>{t("noUsage")}</h2><p>{t("noUsageLead")}</p></div>}
      {answer && answer.total.turns > 0 && (
        <>
          <dl class="totals">
            <div><dt>{t("turns")}</dt><dd>{shortNumber(answer.total.turns)}</dd></div>
            <div><dt>{t("inputTokens")}</dt><dd>{shortNumber(answer.total.inputTokens)}</dd></div>
            <div><dt>{t("outputTokens")}</dt><dd>{shortNumber(answer.total.outputTokens)}</dd></div>
            <div><dt>{t("cacheTokens")}</dt><dd>{shortNumber(answer.total.cacheReadTokens + answer.total.cacheWriteTokens)}</dd></div>
            <div><dt>{t("cost")}</dt><dd>${answer.total.costUsd.toFixed(2)}</dd></div>
          </dl>
          <table class="bars">
            <caption class="offscreen">{t("usage")}</caption>
            <thead><tr><th scope="col">{t(GROUPS.find(([value]) => value === by)?.[1] ?? "byDay")}</th><th scope="col"><span class="offscreen">{t("tokens", { n: "" })}</span></th><th scope="col">{t("turns")}</th><th scope="col">{t("cost")}</th></tr></thead>
            <tbody>
              {groups.map((group) => (
                <tr key={group.key ?? ""}>
                  <th scope="row"><bdi>{nameOf(group)}</bdi></th>
                  <td class="bar-cell"><span class="bar" style={{ inlineSize: `${Math.max(1, (100 * tokensOf(group)) / most)}%` }} /><span>{shortNumber(tokensOf(group))}</span></td>
                  <td>{group.turns}</td><td>${group.costUsd.toFixed(2)}</td>
                </tr>
              ))}
            </tbody>
          </table>
        </>
      )}
    </div>
  );
}
