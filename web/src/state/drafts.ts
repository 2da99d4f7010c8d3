const key = (sessionId: string): string => `farsteer.draft.${sessionId}`;

/** What a person has begun to write, kept in this browser. */
export const readDraft = (sessionId: string): string => localStorage.getItem(key(sessionId)) ?? "";

export function keepDraft(sessionId: string, text: string): void {
  if (text) localStorage.setItem(key(sessionId), text);
  else localStorage.removeItem(key(sessionId));
}
