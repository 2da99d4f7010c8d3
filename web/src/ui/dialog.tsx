import type { ComponentChildren } from "preact";
import { useEffect, useRef } from "preact/hooks";
import { signal } from "@preact/signals";
import { t } from "../texts/index.ts";
import { Icon } from "./icons.tsx";

/** A modal window. Escape, its cross and a click beside it close it. */
export function Dialog({ title, onClose, children, wide }: { title: string; onClose: () => void; children: ComponentChildren; wide?: boolean }) {
  const element = useRef<HTMLDialogElement>(null);
  useEffect(() => {
    const dialog = element.current;
    dialog?.showModal();
    return () => dialog?.close();
  }, []);
  return (
    <dialog ref={element} class={wide ? "dialog wide" : "dialog"} aria-label={title}
      onCancel={(event) => { event.preventDefault(); onClose(); }}
      onMouseDown={(event) => { if (event.target === element.current) onClose(); }}>
      <div class="dialog-body">
        <header>
          <h2>{title}</h2>
          <button type="button" class="quiet" aria-label={t("close")} onClick={onClose}><Icon name="close" /></button>
        </header>
        {children}
      </div>
    </dialog>
  );
}

interface Question {
  title: string;
  text: string;
  action: string;
  dangerous: boolean;
  answer: (yes: boolean) => void;
}

const question = signal<Question | null>(null);

/** Asks for a confirmation. Resolves to true only after a clear yes. */
export function confirmed(title: string, text: string, action: string, dangerous = true): Promise<boolean> {
  return new Promise((resolve) => {
    question.value = { title, text, action, dangerous, answer: (yes) => { question.value = null; resolve(yes); } };
  });
}

export function Confirmation() {
  const asked = question.value;
  if (!asked) return null;
  return (
    <Dialog title={asked.title} onClose={() => asked.answer(false)}>
      <p>{asked.text}</p>
      <footer>
        <button type="button" onClick={() => asked.answer(false)}>{t("cancel")}</button>
        <button type="button" class={asked.dangerous ? "danger" : "primary"} onClick={() => asked.answer(true)}>{asked.action}</button>
      </footer>
    </Dialog>
  );
}
