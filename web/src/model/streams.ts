import type { Delta } from "../api/types.ts";

/** The number of characters as the hub counts them: code points, not UTF-16 units. */
export function countCharacters(text: string): number {
  let count = text.length;
  for (let index = 0; index < text.length - 1; index++) {
    const unit = text.charCodeAt(index);
    if (unit >= 0xd800 && unit < 0xdc00) {
      count--;
      index++;
    }
  }
  return count;
}

export function dropCharacters(text: string, count: number): string {
  return count <= 0 ? text : Array.from(text).slice(count).join("");
}

export function takeCharacters(text: string, count: number): string {
  return Array.from(text).slice(0, count).join("");
}

const MISSING = "… ";

/** Returns each part of a message once, although it arrives twice: in deltas, then complete. */
export class StreamedText {
  private shown = new Map<string, number>();
  private completed = new Set<string>();

  /** The part of `delta` that is new, after a mark if text before it is missing: the complete message has that. */
  add(delta: Delta): string {
    const shown = this.shown.get(delta.messageId) ?? 0;
    const offset = delta.offset ?? 0;
    if (this.completed.has(delta.messageId)) return "";
    if (offset > shown) {
      this.shown.set(delta.messageId, offset + countCharacters(delta.text));
      return `${MISSING}${delta.text}`;
    }
    const fresh = dropCharacters(delta.text, shown - offset);
    this.shown.set(delta.messageId, shown + countCharacters(fresh));
    return fresh;
  }

  complete(messageId: string): void {
    this.completed.add(messageId);
    this.shown.delete(messageId);
  }
}
