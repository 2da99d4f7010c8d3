export interface DiffLine {
  sign: "+" | "-" | " ";
  text: string;
  old: number | null;
  new: number | null;
}

export interface Hunk {
  lines: DiffLine[];
}

const MAX_TABLE = 4_000_000;

/** The changed lines between two texts, with `context` lines around them. */
export function diffLines(before: string, after: string, context = 3): Hunk[] {
  return hunks(allLines(split(before), split(after)), context);
}

export function countChanges(hunksOf: readonly Hunk[]): { added: number; removed: number } {
  const lines = hunksOf.flatMap((hunk) => hunk.lines);
  return { added: lines.filter((line) => line.sign === "+").length, removed: lines.filter((line) => line.sign === "-").length };
}

function split(text: string): string[] {
  if (!text) return [];
  const lines = text.split("\n");
  if (lines.at(-1) === "") lines.pop();
  return lines;
}

function allLines(before: string[], after: string[]): DiffLine[] {
  let start = 0;
  while (start < before.length && start < after.length && before[start] === after[start]) start++;
  let end = 0;
  while (end < before.length - start && end < after.length - start && before.at(-1 - end) === after.at(-1 - end)) end++;
  const oldMiddle = before.slice(start, before.length - end);
  const newMiddle = after.slice(start, after.length - end);
  const signs: ("+" | "-" | " ")[] = [
    ...before.slice(0, start).map(() => " " as const),
    ...middleSigns(oldMiddle, newMiddle),
    ...before.slice(before.length - end).map(() => " " as const),
  ];
  let oldAt = 0;
  let newAt = 0;
  return signs.map((sign) => {
    const line: DiffLine = {
      sign, text: (sign === "+" ? after[newAt] : before[oldAt]) ?? "", old: sign === "+" ? null : oldAt + 1, new: sign === "-" ? null : newAt + 1,
    };
    if (sign !== "+") oldAt++;
    if (sign !== "-") newAt++;
    return line;
  });
}

/** Longest common subsequence; what is too large for that is removed and added as a whole. */
function middleSigns(before: string[], after: string[]): ("+" | "-" | " ")[] {
  const whole = (): ("+" | "-")[] => [...before.map(() => "-" as const), ...after.map(() => "+" as const)];
  if (!before.length || !after.length || before.length * after.length > MAX_TABLE) return whole();
  const width = after.length + 1;
  const table = new Uint32Array((before.length + 1) * width);
  for (let i = before.length - 1; i >= 0; i--) {
    for (let j = after.length - 1; j >= 0; j--) {
      table[i * width + j] = before[i] === after[j]
        ? (table[(i + 1) * width + j + 1] ?? 0) + 1
        : Math.max(table[(i + 1) * width + j] ?? 0, table[i * width + j + 1] ?? 0);
    }
  }
  const signs: ("+" | "-" | " ")[] = [];
  let i = 0;
  let j = 0;
  while (i < before.length && j < after.length) {
    if (before[i] === after[j]) { signs.push(" "); i++; j++; }
    else if ((table[(i + 1) * width + j] ?? 0) >= (table[i * width + j + 1] ?? 0)) { signs.push("-"); i++; }
    else { signs.push("+"); j++; }
  }
  for (; i < before.length; i++) signs.push("-");
  for (; j < after.length; j++) signs.push("+");
  return signs;
}

function hunks(lines: DiffLine[], context: number): Hunk[] {
  const found: Hunk[] = [];
  let last = -1;
  lines.forEach((line, index) => {
    if (line.sign === " ") return;
    const from = Math.max(0, index - context);
    const to = Math.min(lines.length, index + context + 1);
    const open = found.at(-1);
    if (open && from <= last) open.lines.push(...lines.slice(last, to));
    else found.push({ lines: lines.slice(from, to) });
    last = to;
  });
  return found;
}
