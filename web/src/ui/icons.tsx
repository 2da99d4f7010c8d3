const PATHS = {
  home: "M4 6h16M4 12h16M4 18h10",
  inbox: "M4 13l2.5-8h11L20 13v6H4zM4 13h5l1 2.5h4L15 13h5",
  plus: "M12 5v14M5 12h14",
  machine: "M4 5h16v11H4zM9 20h6M12 16v4",
  usage: "M5 20V11M12 20V4M19 20v-6",
  settings: "M4 7h9M17 7h3M4 17h3M11 17h9M15 5v4M9 15v4",
  search: "M10.5 4a6.5 6.5 0 1 0 0 13 6.5 6.5 0 0 0 0-13zM20 20l-4.8-4.8",
  send: "M12 19V6M6 11.5L12 5.5l6 6",
  stop: "M7 7h10v10H7z",
  attach: "M19 11.5l-7.6 7.6a4.6 4.6 0 0 1-6.5-6.5L12.6 5a3 3 0 0 1 4.3 4.3l-7.6 7.5a1.5 1.5 0 0 1-2.1-2.1l6.9-6.9",
  close: "M6 6l12 12M18 6L6 18",
  chevron: "M9 6l6 6-6 6",
  down: "M12 5v13M6 12.5l6 6 6-6",
  back: "M15 5l-7 7 7 7",
  more: "M5.5 12h.01M12 12h.01M18.5 12h.01",
  check: "M5 12.5l4.5 4.5L19 7.5",
  copy: "M9 9h10v10H9zM5 15V5h10",
  terminal: "M5 7l5 5-5 5M12 18h7",
  edit: "M5 19h3.5L19 8.5 15.5 5 5 15.5z",
  file: "M7 3.5h7l4 4V20H7zM14 3.5V8h4",
  globe: "M12 4a8 8 0 1 0 0 16 8 8 0 0 0 0-16zM4 12h16M12 4c3 2.5 3 13.5 0 16M12 4c-3 2.5-3 13.5 0 16",
  spark: "M12 4l1.8 6.2L20 12l-6.2 1.8L12 20l-1.8-6.2L4 12l6.2-1.8z",
  tool: "M14.5 6.5a4 4 0 0 0-5 5L4 17l3 3 5.5-5.5a4 4 0 0 0 5-5L15 12l-3-3z",
  question: "M9 9.5a3 3 0 1 1 4.3 2.7c-.9.4-1.3 1-1.3 2.1M12 18h.01",
  warning: "M12 4.5L21 19.5H3zM12 10v4M12 17h.01",
  trash: "M5 7h14M10 7V4.5h4V7M7 7l1 13h8l1-13",
  fork: "M7 4v16M7 14c6 0 10-1 10-6V4",
  rewind: "M9 7L4 12l5 5M4 12h10a6 6 0 0 1 6 6",
} as const;

export type IconName = keyof typeof PATHS;

export function Icon({ name, size = 18 }: { name: IconName; size?: number }) {
  return (
    <svg class="icon" width={size} height={size} viewBox="0 0 24 24" fill="none" stroke="currentColor" stroke-width={name === "more" ? 2.6 : 1.7}
      stroke-linecap="round" stroke-linejoin="round" aria-hidden="true">
      <path d={PATHS[name]} />
    </svg>
  );
}
