import { useEffect, useRef, useState } from "preact/hooks";
import { post } from "../../api/http.ts";
import { ApiError } from "../../api/request.ts";
import type { Approval, Schemas } from "../../api/types.ts";
import { cleanText } from "../../model/ansi.ts";
import { answerOf, choicesOf, completeAnswers, type Answer, type Choice } from "../../model/answers.ts";
import { dropApproval } from "../../state/sessions.ts";
import { messageOf, tell } from "../../state/toasts.ts";
import { clock, t, type TextKey } from "../../texts/index.ts";
import { Icon } from "../../ui/icons.tsx";
import { Markdown } from "../../ui/markdown.tsx";
import { ToolArguments } from "./ToolArguments.tsx";

/** How long after a question has appeared a key does not answer it: it was meant for something else. */
const GUARD_MS = 500;

interface Props {
  sessionId: string;
  approval: Approval;
  /** Whether keys answer this one. */
  takesKeys: boolean;
}

/** What an agent asks, shown whole, with every answer that is possible. */
export function ApprovalCard({ sessionId, approval, takesKeys }: Props) {
  const shownAt = useRef(Date.now());
  const [isSending, setSending] = useState(false);
  const [reason, setReason] = useState("");
  const [showsReason, setShowsReason] = useState(false);
  const [chosen, setChosen] = useState<Record<string, string[]>>({});
  const [written, setWritten] = useState<Record<string, string>>({});
  const questions = approval.questions ?? [];
  const isQuestion = approval.kind === "question";
  const answers = questions.length ? completeAnswers(questions, chosen, written) : null;
  const choices = choicesOf(approval);
  const lacksAnswer = questions.length > 0 && answers === null;

  const submit = async (answer: Answer): Promise<void> => {
    if (isSending) return;
    setSending(true);
    try {
      await post(`/api/sessions/${sessionId}/permissions/${encodeURIComponent(approval.id)}/${answer.verb}`, answer.body);
      dropApproval(sessionId, approval.id);
    } catch (error) {
      setSending(false);
      if (error instanceof ApiError && error.code === "already_answered") {
        tell(lateText(error.details), true);
        dropApproval(sessionId, approval.id);
      } else if (error instanceof ApiError && error.status === 404) dropApproval(sessionId, approval.id);
      else tell(error instanceof ApiError && error.status === 403 ? t("noScopeApprove") : messageOf(error), true);
    }
  };
  const choose = (choice: Choice): void => {
    const allows = choice.kind === "allow" || choice.kind === "always";
    if (allows && lacksAnswer) return;
    void submit(answerOf(choice, reason, allows ? answers : null));
  };
  const sendAnswers = (): void => {
    if (answers) void submit({ verb: "approve", body: { answers } });
  };

  useEffect(() => {
    if (!takesKeys) return;
    const onKey = (event: KeyboardEvent): void => {
      const inField = (event.target as Element | null)?.closest("input, textarea, select, [role=menu], dialog");
      if (inField || event.ctrlKey || event.metaKey || event.altKey || Date.now() - shownAt.current < GUARD_MS) return;
      if (isQuestion) {
        const only = questions.length === 1 ? questions[0] : undefined;
        const picked = only?.choices?.[Number(event.key) - 1];
        if (only && picked !== undefined) {
          event.preventDefault();
          toggle(only, picked);
        } else if (event.key === "Enter" && answers) sendAnswers();
        return;
      }
      const choice = choices.find((one) => one.key === event.key);
      if (!choice) return;
      event.preventDefault();
      choose(choice);
    };
    addEventListener("keydown", onKey);
    return () => removeEventListener("keydown", onKey);
  });

  const toggle = (question: Schemas["Question"], text: string): void => {
    const picked = chosen[question.id] ?? [];
    const next = question.multiple ? (picked.includes(text) ? picked.filter((one) => one !== text) : [...picked, text]) : [text];
    setChosen({ ...chosen, [question.id]: next });
    if (!question.multiple) setWritten({ ...written, [question.id]: "" });
  };

  return (
    <article class={`approval ${approval.kind}`} aria-label={cleanText(approval.title)} data-approval={approval.id}>
      <header>
        <span class="approval-kind"><Icon name={isQuestion ? "question" : approval.kind === "plan" ? "check" : "warning"} size={16} />
          {t(isQuestion ? "asksQuestion" : approval.kind === "plan" ? "asksPlan" : "asksPermission")}</span>
        {approval.expiresAt != null && <span class="muted">{t("expires", { time: clock(approval.expiresAt) })}</span>}
      </header>
      {!(isQuestion && questions.length === 1) && <h3 dir="auto">{cleanText(approval.title)}</h3>}
      {approval.toolCalls?.length ? (
        <ol class="approval-calls">
          {approval.toolCalls.map((call, index) => (
            <li key={index}><b dir="auto">{cleanText(call.title)}</b> <span class="tag">{call.toolKind ?? "other"}</span>
              <ToolArguments values={call.arguments ?? null} /></li>
          ))}
        </ol>
      ) : <ToolArguments values={approval.arguments ?? null} />}
      {approval.plan && <div class="approval-plan"><Markdown text={approval.plan} /></div>}
      {questions.map((question) => (
        <fieldset key={question.id} class="question">
          <legend dir="auto">{cleanText(question.text)}</legend>
          {question.choices?.length ? <p class="muted small">{t(question.multiple ? "chooseSome" : "chooseOne")}</p> : null}
          <div class="question-choices">
            {question.choices?.map((text, index) => {
              const picked = chosen[question.id]?.includes(text) ?? false;
              return (
                <button type="button" key={text} class={picked ? "choice picked" : "choice"} aria-pressed={picked} onClick={() => toggle(question, text)}>
                  {questions.length === 1 && index < 9 && <kbd>{index + 1}</kbd>}<span dir="auto">{cleanText(text)}</span>{picked && <Icon name="check" size={16} />}
                </button>
              );
            })}
          </div>
          {(question.freeText || !question.choices?.length) && (
            <input type="text" dir="auto" value={written[question.id] ?? ""} placeholder={t("ownAnswer")} aria-label={`${t("ownAnswer")}: ${cleanText(question.text)}`}
              onInput={(event) => setWritten({ ...written, [question.id]: event.currentTarget.value })}
              onKeyDown={(event) => { if (event.key === "Enter" && answers && isQuestion) sendAnswers(); }} />
          )}
        </fieldset>
      ))}
      {showsReason && (
        <textarea rows={2} dir="auto" value={reason} placeholder={t("reasonField")} aria-label={t("reasonField")} onInput={(event) => setReason(event.currentTarget.value)} />
      )}
      <div class="approval-actions">
        {isQuestion ? (
          <>
            <button type="button" class="primary" disabled={isSending || !answers} onClick={sendAnswers}>{t("answer")}</button>
            <button type="button" disabled={isSending} onClick={() => void submit({ verb: "deny", body: { message: "declined to answer" } })}>{t("decline")}</button>
          </>
        ) : choices.map((choice) => (
          <button type="button" key={choice.key} disabled={isSending || (lacksAnswer && (choice.kind === "allow" || choice.kind === "always"))}
            class={choice.kind === "allow" ? "primary" : choice.kind === "stop" ? "danger-text" : ""} title={t(EFFECTS[choice.kind])}
            data-choice={choice.kind} onClick={() => choose(choice)}>
            <span><bdi>{choice.name === null ? t(nameOf(choice, approval)) : cleanText(choice.name)}</bdi>{choice.mode && <small> {t("setsMode", { mode: choice.mode })}</small>}</span>
            <kbd>{choice.key}</kbd>
          </button>
        ))}
        {!isQuestion && !showsReason && <button type="button" class="link" onClick={() => setShowsReason(true)}>{t("explain")}</button>}
      </div>
      {approval.kind === "permission" && (
        <ul class="effects muted small">
          {choices.map((choice) => <li key={choice.key}><b><bdi>{choice.name === null ? t(nameOf(choice, approval)) : cleanText(choice.name)}</bdi></b>: {t(EFFECTS[choice.kind])}</li>)}
        </ul>
      )}
    </article>
  );
}

const EFFECTS: Record<Choice["kind"], TextKey> = { allow: "effectAllow", always: "effectAlways", deny: "effectDeny", stop: "effectStop" };

function nameOf(choice: Choice, approval: Approval): TextKey {
  if (approval.kind === "plan" && choice.kind === "allow") return "approvePlan";
  if (approval.kind === "plan" && choice.kind === "deny") return "rejectPlan";
  return ({ allow: "allow", always: "allowAlways", deny: "deny", stop: "denyStop" } as const)[choice.kind];
}

function lateText(details: Record<string, unknown>): string {
  const outcome = outcomeText(String(details["outcome"]));
  const name = details["by"];
  return typeof name === "string" && name ? t("tooLateBy", { outcome, name }) : t("tooLate", { outcome });
}

export function outcomeText(outcome: string): string {
  const key = `outcome_${outcome}`;
  return key in OUTCOMES ? t(key as TextKey) : outcome;
}

const OUTCOMES = { outcome_approved: 1, outcome_approved_for_session: 1, outcome_denied: 1, outcome_abort: 1, outcome_timed_out: 1, outcome_cancelled: 1 };
