import type { ComponentChildren } from "preact";
import { useEffect, useId, useRef, useState } from "preact/hooks";
import { Icon, type IconName } from "./icons.tsx";

export interface MenuItem {
  label: string;
  hint?: string;
  icon?: IconName;
  chosen?: boolean;
  danger?: boolean;
  run: () => void;
}

/** A button with a list of actions. Arrows move, Enter runs, Escape closes. */
export function Menu({ label, items, children, className, up }: {
  label: string; items: readonly MenuItem[]; children: ComponentChildren; className?: string; up?: boolean;
}) {
  const [isOpen, setOpen] = useState(false);
  const root = useRef<HTMLDivElement>(null);
  const id = useId();
  useEffect(() => {
    if (!isOpen) return;
    const list = root.current?.querySelectorAll<HTMLButtonElement>("[role^=menuitem]");
    ([...(list ?? [])].find((item) => item.getAttribute("aria-checked") === "true") ?? list?.[0])?.focus();
    const outside = (event: Event): void => { if (!root.current?.contains(event.target as Node)) setOpen(false); };
    document.addEventListener("pointerdown", outside);
    return () => document.removeEventListener("pointerdown", outside);
  }, [isOpen]);
  const close = (): void => {
    setOpen(false);
    root.current?.querySelector<HTMLButtonElement>("button")?.focus();
  };
  const move = (event: KeyboardEvent): void => {
    if (event.key === "Escape") { event.stopPropagation(); close(); return; }
    const step = event.key === "ArrowDown" ? 1 : event.key === "ArrowUp" ? -1 : 0;
    if (!step) return;
    event.preventDefault();
    const list = [...(root.current?.querySelectorAll<HTMLButtonElement>("[role^=menuitem]") ?? [])];
    list.at((list.indexOf(document.activeElement as HTMLButtonElement) + step) % list.length)?.focus();
  };
  return (
    <div class={`menu ${up ? "up" : ""}`} ref={root} onKeyDown={isOpen ? move : undefined}>
      <button type="button" class={className ?? "quiet"} aria-label={label} title={label} aria-haspopup="menu" aria-expanded={isOpen}
        aria-controls={isOpen ? id : undefined} onClick={() => setOpen(!isOpen)}>{children}</button>
      {isOpen && (
        <div role="menu" id={id} aria-label={label} class="menu-list">
          {items.map((item) => (
            <button type="button" key={item.label} role={item.chosen === undefined ? "menuitem" : "menuitemradio"} aria-checked={item.chosen}
              class={item.danger ? "danger-text" : ""} onClick={() => { close(); item.run(); }}>
              {item.icon && <Icon name={item.icon} size={16} />}
              <span><span>{item.label}</span>{item.hint && <small>{item.hint}</small>}</span>
              {item.chosen && <Icon name="check" size={16} />}
            </button>
          ))}
        </div>
      )}
    </div>
  );
}
