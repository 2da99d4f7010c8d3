import type { Schemas } from "../../api/types.ts";
import { t } from "../../texts/index.ts";
import { Icon } from "../../ui/icons.tsx";

const SHOWN = ["resume", "approvals", "questions", "plans", "steer", "rewind", "fork", "fileRestore", "images", "usage"] as const;

/** What an agent can and cannot do here. */
export function AgentAbilities({ capabilities }: { capabilities: Schemas["Capabilities"] | undefined }) {
  return (
    <ul class="abilities">
      {SHOWN.map((name) => {
        const can = Boolean(capabilities?.[name]);
        return <li key={name} class={can ? "can" : "cannot"}><Icon name={can ? "check" : "close"} size={12} /><span class="offscreen">{t(can ? "can" : "cannot")}: </span>{t(`cap_${name}`)}</li>;
      })}
    </ul>
  );
}
