import { useEffect, useLayoutEffect, useRef, useState } from "preact/hooks";
import DOMPurify from "dompurify";
import { t } from "../texts/index.ts";
import { Icon } from "./icons.tsx";
import { memo } from "./memo.ts";

const MAX_HIGHLIGHTED = 60_000;

/** Source code with colours, which are added when the highlighter is there, and a button that copies it. */
export const Code = memo(function Code({ text, language, label }: { text: string; language?: string; label?: string }) {
  const element = useRef<HTMLElement>(null);
  const [highlighted, setHighlighted] = useState<string | null>(null);
  const name = (language ?? "").trim().split(/[\s{,]/)[0]?.toLowerCase() ?? "";
  useEffect(() => {
    let current = true;
    setHighlighted(null);
    if (!name || text.length > MAX_HIGHLIGHTED) return;
    const timer = setTimeout(() => {
      void import("./highlight.ts").then(({ highlight }) => {
        if (current) setHighlighted(highlight(text, name));
      }, () => undefined);
    }, 60);
    return () => {
      current = false;
      clearTimeout(timer);
    };
  }, [text, name]);
  useLayoutEffect(() => {
    const target = element.current;
    if (!target) return;
    if (highlighted === null) target.textContent = text;
    else {
      // Trusted HTML, which the types of the DOM do not know.
      const clean = DOMPurify.sanitize(highlighted, { ALLOWED_TAGS: ["span"], ALLOWED_ATTR: ["class"], RETURN_TRUSTED_TYPE: true });
      target.innerHTML = clean as unknown as string;
    }
  }, [highlighted, text]);
  return (
    <figure class="code">
      <figcaption>
        <span>{label ?? name}</span>
        <CopyButton text={text} />
      </figcaption>
      <pre tabIndex={0} dir="ltr"><code ref={element} /></pre>
    </figure>
  );
});

export function CopyButton({ text, label }: { text: string; label?: string }) {
  const [copied, setCopied] = useState(false);
  useEffect(() => {
    if (!copied) return;
    const timer = setTimeout(() => setCopied(false), 1500);
    return () => clearTimeout(timer);
  }, [copied]);
  return (
    <button type="button" class="quiet small" title={label ?? t("copy")} aria-label={copied ? t("copied") : (label ?? t("copy"))}
      onClick={() => void copyText(text).then(setCopied)}>
      <Icon name={copied ? "check" : "copy"} size={15} />
    </button>
  );
}

/** The clipboard of the browser, or of a page that is not served securely. */
async function copyText(text: string): Promise<boolean> {
  try {
    await navigator.clipboard.writeText(text);
    return true;
  } catch {
    const field = document.createElement("textarea");
    field.value = text;
    field.className = "offscreen";
    document.body.append(field);
    field.select();
    const done = document.execCommand("copy");
    field.remove();
    return done;
  }
}
