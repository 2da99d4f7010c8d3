import { language } from "../state/preferences.ts";
import { en } from "./en.ts";
import { zh } from "./zh.ts";

export type TextKey = keyof typeof en;

/** The text of a key in the chosen language, with `{name}` replaced. */
export function t(key: TextKey, values?: Record<string, string | number>): string {
  const text: string = (language.value === "zh" ? zh : en)[key];
  return values ? text.replace(/\{(\w+)\}/g, (whole, name: string) => String(values[name] ?? whole)) : text;
}

export function ago(at: number, now = Date.now()): string {
  const seconds = Math.max(0, (now - at) / 1000);
  if (seconds < 60) return t("justNow");
  const format = new Intl.RelativeTimeFormat(language.value, { numeric: "always", style: "narrow" });
  if (seconds < 3600) return format.format(-Math.floor(seconds / 60), "minute");
  if (seconds < 86_400) return format.format(-Math.floor(seconds / 3600), "hour");
  return format.format(-Math.floor(seconds / 86_400), "day");
}

export function shortNumber(value: number): string {
  return new Intl.NumberFormat(language.value, { notation: "compact", maximumFractionDigits: 1 }).format(value);
}

export function clock(at: number): string {
  return new Intl.DateTimeFormat(language.value, { dateStyle: "medium", timeStyle: "short" }).format(at);
}
