import { useEffect, useRef, useState } from "preact/hooks";
import { cleanText } from "../model/ansi.ts";
import { go, sessionAddress } from "../state/router.ts";
import { sessions } from "../state/sessions.ts";
import { theme } from "../state/preferences.ts";
import { t } from "../texts/index.ts";
import { Dialog } from "../ui/dialog.tsx";
import { shortPath, titleOf } from "../screens/home/status.tsx";

interface Command {
  id: string;
  text: string;
  hint: string;
  run: () => void;
}

const MOST = 12;

/** A field to go to any session or place. */
export function Palette({ onClose, onKeys }: { onClose: () => void; onKeys: () => void }) {
  const [search, setSearch] = useState("");
  const [picked, setPicked] = useState(0);
  const list = useRef<HTMLUListElement>(null);
  const words = search.toLowerCase().split(/\s+/).filter(Boolean);
  const fits = (text: string): boolean => words.every((word) => text.toLowerCase().includes(word));
  const places: Command[] = [
    { id: "new", text: t("newSession"), hint: "c", run: () => go("#/new") },
    { id: "home", text: t("home"), hint: "h", run: () => go("#/") },
    { id: "inbox", text: t("inbox"), hint: "i", run: () => go("#/inbox") },
    { id: "machines", text: t("machines"), hint: "", run: () => go("#/machines") },
    { id: "usage", text: t("usage"), hint: "", run: () => go("#/usage") },
    { id: "settings", text: t("settings"), hint: "", run: () => go("#/settings") },
    { id: "dark", text: `${t("theme")}: ${t("themeDark")}`, hint: "", run: () => (theme.value = "dark") },
    { id: "light", text: `${t("theme")}: ${t("themeLight")}`, hint: "", run: () => (theme.value = "light") },
  ].filter((command) => fits(command.text));
  const found: Command[] = sessions.value
    .filter((session) => fits(`${titleOf(session)} ${session.directory} ${session.agent}`))
    .slice(0, MOST)
    .map((session) => ({ id: session.id, text: cleanText(titleOf(session)), hint: `${session.agent} · ${shortPath(session.directory)}`, run: () => go(sessionAddress(session.id)) }));
  const keys: Command[] = fits(t("keys")) ? [{ id: "keys", text: t("keys"), hint: "?", run: onKeys }] : [];
  const commands = words.length ? [...found, ...places, ...keys] : [...places.slice(0, 3), ...found, ...places.slice(3), ...keys];
  useEffect(() => { list.current?.querySelector("[aria-selected=true]")?.scrollIntoView({ block: "nearest" }); }, [picked]);
  const run = (command: Command | undefined): void => {
    if (!command) return;
    onClose();
    command.run();
  };
  return (
    <Dialog title={t("palette")} onClose={onClose}>
      <input type="text" autofocus class="palette-field" role="combobox" list={undefined} aria-expanded="true" aria-controls="palette-list" aria-label={t("palette")} placeholder={t("palette")}
        aria-activedescendant={commands.length ? `palette-${picked}` : undefined} value={search}
        onInput={(event) => { setSearch(event.currentTarget.value); setPicked(0); }}
        onKeyDown={(event) => {
          const step = event.key === "ArrowDown" ? 1 : event.key === "ArrowUp" ? -1 : 0;
          if (step && commands.length) { event.preventDefault(); setPicked((picked + step + commands.length) % commands.length); }
          if (event.key === "Enter") { event.preventDefault(); run(commands[picked]); }
        }} />
      <ul id="palette-list" class="palette-list" role="listbox" aria-label={t("palette")} ref={list}>
        {commands.map((command, index) => (
          <li key={command.id} id={`palette-${index}`} role="option" aria-selected={index === picked} onMouseMove={() => setPicked(index)} onClick={() => run(command)}>
            <span dir="auto">{command.text}</span><small class="muted"><bdi>{command.hint}</bdi></small>
          </li>
        ))}
      </ul>
      {!commands.length && <p class="muted center">{t("nothingFound")}</p>}
    </Dialog>
  );
}
