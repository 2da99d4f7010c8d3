import { signal } from "@preact/signals";
import { ApiError } from "../api/request.ts";
import { t } from "../texts/index.ts";

export interface Toast {
  id: number;
  text: string;
  bad: boolean;
}

export const toasts = signal<readonly Toast[]>([]);
let last = 0;

export function tell(text: string, bad = false): void {
  const id = ++last;
  toasts.value = [...toasts.value.slice(-2), { id, text, bad }];
  setTimeout(() => dismiss(id), bad ? 9000 : 4000);
}

export function dismiss(id: number): void {
  toasts.value = toasts.value.filter((toast) => toast.id !== id);
}

export function messageOf(error: unknown): string {
  if (error instanceof ApiError && error.status === 0) return t("unreachable");
  return error instanceof Error ? error.message : String(error);
}

/** Runs something that may fail, and tells the person if it does. Returns whether it worked. */
export async function attempt(work: () => Promise<unknown>): Promise<boolean> {
  try {
    await work();
    return true;
  } catch (error) {
    tell(messageOf(error), true);
    return false;
  }
}
