import type { ComponentChildren } from "preact";
import { useEffect, useRef, useState } from "preact/hooks";

const OVERSCAN = 8;

/** A list that draws only what is in view. Every row has the same height. The nearest scrolling element moves it. */
export function Windowed<T>({ items, rowHeight, keyOf, row, label }: {
  items: readonly T[]; rowHeight: number; keyOf: (item: T) => string; row: (item: T) => ComponentChildren; label: string;
}) {
  const root = useRef<HTMLUListElement>(null);
  const [range, setRange] = useState<[number, number]>([0, 40]);
  useEffect(() => {
    const scroller = root.current?.closest<HTMLElement>("[data-scroll]");
    if (!scroller) return;
    const measure = (): void => {
      if (!root.current) return;
      const top = root.current.getBoundingClientRect().top - scroller.getBoundingClientRect().top;
      const first = Math.max(0, Math.floor(-top / rowHeight) - OVERSCAN);
      const last = Math.ceil((scroller.clientHeight - top) / rowHeight) + OVERSCAN;
      setRange((before) => (before[0] === first && before[1] === last ? before : [first, last]));
    };
    measure();
    scroller.addEventListener("scroll", measure, { passive: true });
    const observer = new ResizeObserver(measure);
    observer.observe(scroller);
    return () => {
      scroller.removeEventListener("scroll", measure);
      observer.disconnect();
    };
  }, [rowHeight, items.length]);
  const [first, last] = range;
  return (
    <ul ref={root} class="windowed" aria-label={label} style={{ height: `${items.length * rowHeight}px` }}>
      {items.slice(first, last).map((item, index) => (
        <li key={keyOf(item)} aria-setsize={items.length} aria-posinset={first + index + 1}
          style={{ transform: `translateY(${(first + index) * rowHeight}px)`, height: `${rowHeight}px` }}>{row(item)}</li>
      ))}
    </ul>
  );
}
