import { useEffect, useLayoutEffect, useRef, useState } from "preact/hooks";
import type { Session } from "../../api/types.ts";
import type { OpenSession } from "../../state/open_session.ts";
import { t } from "../../texts/index.ts";
import { Icon } from "../../ui/icons.tsx";
import { BlockView } from "./BlockView.tsx";
import { Working } from "./Working.tsx";

const NEAR_END = 60;
const NEAR_START = 1200;

/** The log, at its end until somebody scrolls. Older entries are read before the start comes into view. */
export function Log({ opened, session, onEdit }: { opened: OpenSession; session: Session; onEdit: (text: string) => void }) {
  const scroller = useRef<HTMLDivElement>(null);
  const content = useRef<HTMLDivElement>(null);
  const atEnd = useRef(true);
  const lastTop = useRef(0);
  /** The first block and where it was, to keep the view when older ones are put before it. */
  const anchor = useRef<{ key: string; top: number } | null>(null);
  const [isAway, setAway] = useState(false);
  const version = opened.version.value;
  const { blocks, hasOlder } = opened.conversation;
  const state = opened.state.value;

  const toEnd = (): void => {
    const element = scroller.current;
    if (!element) return;
    element.scrollTop = element.scrollHeight;
    lastTop.current = element.scrollTop;
  };
  const jumps = opened.jumps.value;
  useLayoutEffect(() => {
    atEnd.current = true;
    toEnd();
  }, [jumps]);
  useLayoutEffect(() => {
    const element = scroller.current;
    if (!element) return;
    if (atEnd.current) toEnd();
    else if (anchor.current) {
      const kept = element.querySelector<HTMLElement>(`[data-key="${CSS.escape(anchor.current.key)}"]`);
      if (kept) element.scrollTop += kept.getBoundingClientRect().top - anchor.current.top;
    }
    remember();
  }, [version, state]);
  useEffect(() => {
    const element = scroller.current;
    if (!element || !content.current) return;
    const onScroll = (): void => {
      const isNear = element.scrollHeight - element.scrollTop - element.clientHeight < NEAR_END;
      // Content that grows moves the end away; only a person scrolls up.
      if (isNear) atEnd.current = true;
      else if (element.scrollTop < lastTop.current - 1) atEnd.current = false;
      lastTop.current = element.scrollTop;
      opened.followsEnd = atEnd.current;
      setAway(!atEnd.current);
      remember();
      if (element.scrollTop < NEAR_START) void opened.readOlder();
    };
    element.addEventListener("scroll", onScroll, { passive: true });
    // Highlighted code, unfolded cards and a smaller window change heights without a new entry.
    const observer = new ResizeObserver(() => {
      if (atEnd.current) toEnd();
    });
    observer.observe(content.current);
    observer.observe(element);
    return () => {
      element.removeEventListener("scroll", onScroll);
      observer.disconnect();
    };
  }, [opened, state]);
  useEffect(() => {
    const element = scroller.current;
    if (element && state === "ready" && hasOlder && element.scrollHeight <= element.clientHeight + NEAR_START) void opened.readOlder();
  }, [version, state]);

  /** Keeps in mind which block is at the top of the view. */
  function remember(): void {
    const element = scroller.current;
    if (!element) return;
    const top = element.getBoundingClientRect().top;
    const shown = content.current?.querySelectorAll<HTMLElement>(":scope > [data-key]") ?? [];
    let low = 0;
    let high = shown.length;
    while (low < high) {
      const middle = (low + high) >> 1;
      if ((shown[middle]?.getBoundingClientRect().bottom ?? 0) <= top) low = middle + 1;
      else high = middle;
    }
    const first = shown[low];
    anchor.current = first ? { key: first.dataset["key"] ?? "", top: first.getBoundingClientRect().top } : null;
  }

  return (
    <div class="log-frame">
      <div class="log" ref={scroller} data-scroll tabIndex={0} role="log" aria-label={t("message")} aria-busy={state === "loading"} aria-live="off">
        <div class="log-content" ref={content}>
          {state === "loading" && <p class="muted center" role="status">{t("loading")}</p>}
          {state === "ready" && hasOlder && <p class="muted center small" role="status">{opened.readingOlder.value ? t("older") : " "}</p>}
          {state === "ready" && !hasOlder && blocks.length > 0 && <p class="muted center small">{t("beginning")}</p>}
          {state === "ready" && blocks.length === 0 && <p class="muted center">{t("emptySession")}</p>}
          {blocks.map((block) => <BlockView key={block.key} block={block} sessionId={session.id} agent={session.agent} onEdit={onEdit} />)}
          <Working session={session} />
        </div>
      </div>
      {isAway && (
        <button type="button" class="to-end" aria-label={t("toEnd")} title={t("toEnd")} onClick={() => { atEnd.current = true; toEnd(); }}>
          <Icon name="down" />
        </button>
      )}
    </div>
  );
}
