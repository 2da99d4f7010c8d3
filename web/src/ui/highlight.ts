import hljs from "highlight.js/lib/common";

/** HTML with a span for each token. The caller cleans it. Null if the language is not known. */
export function highlight(text: string, language: string): string | null {
  if (!hljs.getLanguage(language)) return null;
  return hljs.highlight(text, { language, ignoreIllegals: true }).value;
}
