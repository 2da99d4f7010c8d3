import { cleanText } from "../../model/ansi.ts";
import { Code } from "../../ui/code.tsx";
import { Diff } from "../../ui/diff.tsx";

interface Change {
  path: string;
  before: string | null;
  after: string;
}

const text = (value: unknown): string | null => (typeof value === "string" ? value : null);

/** The change of a file that a tool's arguments describe, in the forms that agents use. */
function changeOf(values: Record<string, unknown>): Change | null {
  const nested = values["diff"];
  if (nested && typeof nested === "object") return changeOf(nested as Record<string, unknown>);
  const path = text(values["file_path"]) ?? text(values["filePath"]) ?? text(values["path"]);
  if (path === null) return null;
  const before = text(values["old_string"]) ?? text(values["old_str"]) ?? text(values["oldText"]) ?? text(values["old"]);
  const after = text(values["new_string"]) ?? text(values["new_str"]) ?? text(values["newText"]) ?? text(values["new"]) ?? text(values["content"]);
  return after === null && before === null ? null : { path, before, after: after ?? "" };
}

const SHOWN_IN_DIFF = new Set([
  "diff", "file_path", "filePath", "path", "old_string", "old_str", "oldText", "old", "new_string", "new_str", "newText", "new", "content",
]);

/** Everything that a tool is called with: the command as a command, a change as a diff, the rest by name. */
export function ToolArguments({ values }: { values: Record<string, unknown> | null }) {
  if (!values) return null;
  const command = commandOf(values["command"]);
  const change = changeOf(values);
  const rest = Object.entries(values).filter(([name]) => !(command !== null && name === "command") && !(change && SHOWN_IN_DIFF.has(name)));
  return (
    <div class="arguments">
      {command !== null && <Code text={cleanText(command)} language="bash" label="shell" />}
      {change && <Diff path={change.path} before={change.before} after={change.after} />}
      {rest.length > 0 && (
        <dl>
          {rest.map(([name, value]) => (
            <div key={name}><dt>{cleanText(name)}</dt><dd dir="auto">{cleanText(typeof value === "string" ? value : JSON.stringify(value, null, 1))}</dd></div>
          ))}
        </dl>
      )}
    </div>
  );
}

function commandOf(value: unknown): string | null {
  if (typeof value === "string") return value;
  return Array.isArray(value) && value.every((part) => typeof part === "string") ? value.join(" ") : null;
}
