/** A piece of terminal output in one style. */
export interface Span {
  text: string;
  color: string | null;
  background: string | null;
  bold: boolean;
  dim: boolean;
  italic: boolean;
  underline: boolean;
}

// Control sequences (CSI), commands to the terminal (OSC, DCS, …), and other escapes.
const ESCAPES = /\x1b(?:\[([0-?]*)[ -/]*([@-~])|[\]PX^_][^\x07\x1b]*(?:\x07|\x1b\\|$)|[ -/]*[0-~]|$)/g;
const CONTROLS = /[\x00-\x08\x0b-\x1f\x7f-\x9f\u200b\u200e\u200f\u202a-\u202e\u2060-\u2069\ufeff]/g;
const BASE = ["black", "red", "green", "yellow", "blue", "magenta", "cyan", "white"];
const PLAIN: Omit<Span, "text"> = { color: null, background: null, bold: false, dim: false, italic: false, underline: false };

/** Parses colours and removes everything else that could control a terminal. A carriage return begins a line anew. */
export function parseAnsi(source: string): Span[] {
  const spans: Span[] = [];
  let style = { ...PLAIN };
  let end = 0;
  const text = returned(source);
  const add = (part: string): void => {
    const clean = part.replace(CONTROLS, "");
    if (!clean) return;
    const last = spans.at(-1);
    if (last && sameStyle(last, style)) last.text += clean;
    else spans.push({ text: clean, ...style });
  };
  for (const match of text.matchAll(ESCAPES)) {
    add(text.slice(end, match.index));
    end = match.index + match[0].length;
    if (match[2] === "m") style = restyle(style, match[1] ?? "");
  }
  add(text.slice(end));
  return spans;
}

/** Text of an agent without what is invisible or could reorder what is read. */
export function cleanText(text: string): string {
  return text.replace(ESCAPES, "").replace(CONTROLS, "");
}

function returned(text: string): string {
  if (!text.includes("\r")) return text;
  return text
    .replaceAll("\r\n", "\n")
    .split("\n")
    .map((line) => line.replace(/\r+$/, "").split("\r").at(-1) ?? "")
    .join("\n");
}

function restyle(style: typeof PLAIN, parameters: string): typeof PLAIN {
  const codes = parameters.split(/[;:]/).map((code) => Number(code || 0));
  let result = { ...style };
  for (let index = 0; index < codes.length; index++) {
    const code = codes[index] ?? 0;
    if (code === 0) result = { ...PLAIN };
    else if (code === 1) result.bold = true;
    else if (code === 2) result.dim = true;
    else if (code === 3) result.italic = true;
    else if (code === 4) result.underline = true;
    else if (code === 22) result.bold = result.dim = false;
    else if (code === 23) result.italic = false;
    else if (code === 24) result.underline = false;
    else if (code === 39) result.color = null;
    else if (code === 49) result.background = null;
    else if (code >= 30 && code <= 37) result.color = BASE[code - 30] ?? null;
    else if (code >= 40 && code <= 47) result.background = BASE[code - 40] ?? null;
    else if (code >= 90 && code <= 97) result.color = `bright-${BASE[code - 90]}`;
    else if (code >= 100 && code <= 107) result.background = `bright-${BASE[code - 100]}`;
    else if (code === 38 || code === 48) {
      const [color, used] = extended(codes.slice(index + 1));
      if (code === 38) result.color = color;
      else result.background = color;
      index += used;
    }
  }
  return result;
}

/** A colour of the 256 or of all, and how many codes it took. */
function extended(codes: number[]): [string | null, number] {
  const [mode, first = 0, second = 0, third = 0] = codes;
  if (mode === 2) return [rgb(first, second, third), 4];
  if (mode !== 5) return [null, 1];
  if (first < 16) return [`${first > 7 ? "bright-" : ""}${BASE[first % 8]}`, 2];
  if (first > 231) return [rgb(8 + (first - 232) * 10, 8 + (first - 232) * 10, 8 + (first - 232) * 10), 2];
  const level = (value: number): number => (value ? 55 + value * 40 : 0);
  const cube = first - 16;
  return [rgb(level(Math.floor(cube / 36)), level(Math.floor(cube / 6) % 6), level(cube % 6)), 2];
}

function rgb(...values: number[]): string {
  return `#${values.map((value) => Math.min(255, Math.max(0, Math.trunc(value))).toString(16).padStart(2, "0")).join("")}`;
}

function sameStyle(span: Span, style: typeof PLAIN): boolean {
  return (Object.keys(PLAIN) as (keyof typeof PLAIN)[]).every((name) => span[name] === style[name]);
}
