import { useEffect, useLayoutEffect, useRef, useState } from "preact/hooks";
import { post } from "../../api/http.ts";
import type { NewAttachment, Schemas, Session } from "../../api/types.ts";
import { keepDraft, readDraft } from "../../state/drafts.ts";
import { sendMessage } from "../../state/outbox.ts";
import { attempt, tell } from "../../state/toasts.ts";
import { t } from "../../texts/index.ts";
import { Icon } from "../../ui/icons.tsx";
import { SessionSettings } from "./SessionSettings.tsx";

const MAX_BYTES = 20 * 1024 * 1024;
const MAX_FILES = 20;

/** Where a person writes. What is written is kept until it is sent, also over a reload. */
export function Composer({ session, insert, onSent }: { session: Session; insert: { text: string } | null; onSent: () => void }) {
  const [text, setText] = useState(() => readDraft(session.id));
  const [files, setFiles] = useState<NewAttachment[]>([]);
  const [isOver, setOver] = useState(false);
  const [isStopping, setStopping] = useState(false);
  const [picked, setPicked] = useState(0);
  const [closedFor, setClosedFor] = useState<string | null>(null);
  const field = useRef<HTMLTextAreaElement>(null);
  const picker = useRef<HTMLInputElement>(null);
  const isBusy = session.thinking;
  const change = (written: string): void => {
    // At once: a page that is reloaded in the next moment must not lose a word.
    keepDraft(session.id, written);
    setText(written);
  };

  useEffect(() => {
    if (!insert) return;
    change(text.trim() ? `${text.trimEnd()}\n${insert.text}` : insert.text);
    field.current?.focus();
  }, [insert]);
  useLayoutEffect(() => {
    const element = field.current;
    if (!element) return;
    element.style.height = "auto";
    element.style.height = `${Math.min(element.scrollHeight, innerHeight * 0.4)}px`;
  }, [text]);
  useEffect(() => {
    if (!isBusy) setStopping(false);
  }, [isBusy]);
  useEffect(() => {
    if (matchMedia("(hover: hover)").matches) field.current?.focus({ preventScroll: true });
  }, []);

  const word = /^\/(\S*)$/.exec(text)?.[1];
  const commands = word === undefined || closedFor === text ? [] : session.commands.filter((command) => command.name.toLowerCase().startsWith(word.toLowerCase())).slice(0, 8);
  const complete = (name: string): void => {
    change(`/${name} `);
    setPicked(0);
    field.current?.focus();
  };
  const submit = (delivery: Schemas["Delivery"] = "queue"): void => {
    const said = text.trim();
    if (!said && !files.length) return;
    setText("");
    setFiles([]);
    // Words are needed beside files: an agent gets a message, not a folder.
    const stored = sendMessage(session.id, said || files.map((file) => file.name).join(", "), files, delivery);
    // Until then the draft is what a crash leaves.
    void stored.then(() => { if (readDraft(session.id) === text) keepDraft(session.id, ""); });
    onSent();
  };
  const addFiles = async (added: Iterable<File>): Promise<void> => {
    const room = files.reduce((sum, file) => sum + file.data.length * 0.75, 0);
    let total = room;
    const read: NewAttachment[] = [];
    for (const file of added) {
      total += file.size;
      if (total > MAX_BYTES || files.length + read.length >= MAX_FILES) {
        tell(t("fileTooLarge", { name: file.name, size: MAX_BYTES / 1024 / 1024 }), true);
        break;
      }
      read.push({ name: file.name || "image.png", mimeType: file.type || "application/octet-stream", data: await base64Of(file) });
    }
    setFiles((before) => [...before, ...read]);
  };
  const stop = (): void => {
    setStopping(true);
    void attempt(() => post(`/api/sessions/${session.id}/abort`)).then((done) => { if (!done) setStopping(false); });
  };
  const onKey = (event: KeyboardEvent): void => {
    if (event.isComposing) return;
    if (commands.length) {
      const step = event.key === "ArrowDown" ? 1 : event.key === "ArrowUp" ? -1 : 0;
      if (step) { event.preventDefault(); setPicked((picked + step + commands.length) % commands.length); return; }
      const command = commands[picked] ?? commands[0];
      if ((event.key === "Tab" || (event.key === "Enter" && command?.name !== word)) && command) { event.preventDefault(); complete(command.name); return; }
      if (event.key === "Escape") { event.preventDefault(); setClosedFor(text); return; }
    }
    if (event.key === "Escape") field.current?.blur();
    if (event.key !== "Enter" || event.shiftKey || event.altKey) return;
    // On a phone Enter begins a line; the button sends.
    if (matchMedia("(hover: none)").matches && !event.ctrlKey) return;
    event.preventDefault();
    submit(event.ctrlKey || event.metaKey ? "now" : "queue");
  };

  return (
    <form class={isOver ? "composer over" : "composer"} onSubmit={(event) => { event.preventDefault(); submit(); }}
      onDragOver={(event) => { event.preventDefault(); setOver(true); }} onDragLeave={() => setOver(false)}
      onDrop={(event) => { event.preventDefault(); setOver(false); void addFiles(event.dataTransfer?.files ?? []); }}>
      {commands.length > 0 && (
        <ul class="completions" role="listbox" id="commands" aria-label={t("slashCommands")}>
          {commands.map((command, index) => (
            <li key={command.name} id={`command-${index}`} role="option" aria-selected={index === picked} class={index === picked ? "picked" : ""}
              onMouseDown={(event) => { event.preventDefault(); complete(command.name); }}>
              <b>/{command.name}</b> <span class="muted">{command.description}</span>
            </li>
          ))}
        </ul>
      )}
      {files.length > 0 && (
        <ul class="attachments">
          {files.map((file, index) => (
            <li key={index}>
              {file.mimeType?.startsWith("image/") && file.mimeType !== "image/svg+xml" ? <img src={`data:${file.mimeType};base64,${file.data}`} alt="" /> : <Icon name="file" size={15} />}
              <bdi>{file.name}</bdi>
              <button type="button" class="quiet small" aria-label={t("removeFile", { name: file.name })} onClick={() => setFiles(files.filter((_, other) => other !== index))}><Icon name="close" size={14} /></button>
            </li>
          ))}
        </ul>
      )}
      <textarea ref={field} id="composer" rows={1} dir="auto" value={text} aria-label={t("messageTo", { agent: session.agent })} enterkeyhint="enter"
        placeholder={isOver ? t("dropHere") : isBusy ? t("messageWhileBusy") : t("messageTo", { agent: session.agent })}
        aria-autocomplete="list" aria-controls={commands.length ? "commands" : undefined} aria-activedescendant={commands.length ? `command-${picked}` : undefined}
        onInput={(event) => { change(event.currentTarget.value); setPicked(0); }} onKeyDown={onKey}
        onPaste={(event) => { const found = [...(event.clipboardData?.files ?? [])]; if (found.length) { event.preventDefault(); void addFiles(found); } }} />
      <div class="composer-bar">
        <button type="button" class="quiet" aria-label={t("attach")} title={t("attach")} onClick={() => picker.current?.click()}><Icon name="attach" /></button>
        <input ref={picker} type="file" multiple class="offscreen" tabIndex={-1} aria-label={t("attach")}
          onChange={(event) => { void addFiles([...(event.currentTarget.files ?? [])]); event.currentTarget.value = ""; }} />
        <SessionSettings session={session} />
        <span class="grow" />
        {isBusy && text.trim() && <button type="button" class="quiet small wide-only" title={t("interrupt")} onClick={() => submit("now")}>{t("sendNow")}</button>}
        {isBusy && (
          <button type="button" class="round stop" aria-label={t(isStopping ? "stopping" : "stop")} title={t("stop")} disabled={isStopping} onClick={stop}>
            {isStopping ? <span class="spinner" /> : <Icon name="stop" />}
          </button>
        )}
        {(!isBusy || text.trim() !== "" || files.length > 0) && (
          <button type="submit" class="round primary" aria-label={t("send")} title={t("send")} disabled={!text.trim() && !files.length}><Icon name="send" /></button>
        )}
      </div>
    </form>
  );
}

function base64Of(file: File): Promise<string> {
  return new Promise((resolve, reject) => {
    const reader = new FileReader();
    reader.onload = () => resolve(String(reader.result).replace(/^data:[^,]*,/, ""));
    reader.onerror = () => reject(reader.error ?? new Error("unreadable"));
    reader.readAsDataURL(file);
  });
}
