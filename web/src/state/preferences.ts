import { effect, signal } from "@preact/signals";

export type Theme = "system" | "light" | "dark";
export type Language = "en" | "zh";

const themes: readonly Theme[] = ["system", "light", "dark"];
export const theme = signal<Theme>(themes.find((one) => one === localStorage.getItem("farsteer.theme")) ?? "system");
export const language = signal<Language>(storedLanguage());

function storedLanguage(): Language {
  const stored = localStorage.getItem("farsteer.language");
  if (stored === "en" || stored === "zh") return stored;
  return navigator.language.toLowerCase().startsWith("zh") ? "zh" : "en";
}

export function applyPreferences(): void {
  effect(() => {
    document.documentElement.dataset["theme"] = theme.value;
    localStorage.setItem("farsteer.theme", theme.value);
  });
  effect(() => {
    document.documentElement.lang = language.value === "zh" ? "zh-CN" : "en";
  });
}

export function chooseLanguage(chosen: Language): void {
  language.value = chosen;
  localStorage.setItem("farsteer.language", chosen);
}
