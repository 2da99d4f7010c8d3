import type { QueueChange, QueueItem } from "../api/types.ts";

/** The queue after the `queueChanges` of a `session-updated`. */
export function changeQueue(queue: readonly QueueItem[], changes: readonly QueueChange[]): QueueItem[] {
  const known = new Map(queue.map((item) => [item.id, item]));
  const listed = new Set(changes.map((change) => change.id));
  const items = queue.filter((item) => !listed.has(item.id));
  for (const change of changes) {
    const item = (change.item as QueueItem | null | undefined) ?? known.get(change.id);
    if (change.position == null || !item) continue;
    items.splice(change.position, 0, { ...item, state: change.state ?? item.state });
  }
  return items;
}
