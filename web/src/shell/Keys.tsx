import { t, type TextKey } from "../texts/index.ts";
import { Dialog } from "../ui/dialog.tsx";

const LIST: readonly (readonly [readonly string[], TextKey])[] = [
  [["Ctrl", "K"], "key_palette"], [["?"], "key_help"], [["c"], "key_new"], [["h"], "key_home"], [["i"], "key_inbox"], [["j"], "key_next"], [["k"], "key_previous"],
  [["/"], "key_compose"], [["y", "a", "n", "x"], "key_answer"], [["1", "…", "9"], "key_number"], [["Enter"], "key_send"], [["Ctrl", "Enter"], "key_now"], [["Esc"], "key_escape"],
];

export function Keys({ onClose }: { onClose: () => void }) {
  return (
    <Dialog title={t("keys")} onClose={onClose}>
      <p class="muted small">{t("keysLead")}</p>
      <dl class="keys">
        {LIST.map(([keys, text]) => <div key={text}><dt>{keys.map((key) => <kbd key={key}>{key}</kbd>)}</dt><dd>{t(text)}</dd></div>)}
      </dl>
    </Dialog>
  );
}
