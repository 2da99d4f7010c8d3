// Uses a hub by the types that openapi-typescript makes of its OpenAPI document: node generated_client.ts HUB TOKEN DIRECTORY
// Prints one line of JSON. tests/contract/test_generated_clients.py compiles it, strictly, and runs it.
import createClient from "openapi-fetch";
import { io } from "socket.io-client";
import type { components, paths } from "farsteer-schema";

type Schemas = components["schemas"];
declare const process: { argv: string[]; stdout: { write(text: string): void }; exit(code: number): never };

const [, , hub = "", accessToken = "", directory = ""] = process.argv;
const client = createClient<paths>({ baseUrl: hub });

function unwrap<T>(answer: { data?: T; error?: unknown }): T {
  if (answer.data === undefined) throw new Error(JSON.stringify(answer.error));
  return answer.data;
}

const { token } = unwrap(await client.POST("/api/auth", { body: { accessToken } }));
client.use({
  onRequest({ request }) {
    request.headers.set("Authorization", `Bearer ${token}`);
  },
});
const { machines } = unwrap(await client.GET("/api/machines", { params: { query: { active: true } } }));
const [machine] = machines;
if (machine === undefined) throw new Error("no machine is connected");
// A response always has what its schema requires, such as a list that is empty.
const roots: number = machine.roots.length;

// A request may leave out everything that has a default.
const created = unwrap(
  await client.POST("/api/sessions", { body: { machineId: machine.id, directory, agent: "demo" } }),
);
const path = { sessionId: created.sessionId };

const socket = io(`${hub}/events`, { auth: { token }, transports: ["websocket"] });
const types = new Set<Schemas["SyncEvent"]["type"]>();
const texts: string[] = [];
const ended = new Promise<void>((resolve) => {
  socket.on("event", (event: Schemas["SyncEvent"]) => {
    types.add(event.type);
    // The type of an event says which fields it has, and so does the kind of an entry.
    if (event.type !== "message-received") return;
    const { content } = event.message;
    if (content.kind === "agent_message") texts.push(content.text);
    if (content.kind === "turn_end") resolve();
  });
});
const ready = await new Promise<Schemas["ReadyEvent"]>((resolve) => socket.on("ready", resolve));
const accepted = unwrap(
  await client.POST("/api/sessions/{sessionId}/messages", { params: { path }, body: { text: "hello" } }),
);
await ended;
socket.close();

const done = unwrap(await client.POST("/api/sessions/{sessionId}/stop", { params: { path } }));
const ok: true = done.ok;
const { error } = await client.GET("/api/sessions/{sessionId}", { params: { path: { sessionId: machine.id } } });
const code: Schemas["ErrorCode"] | undefined = error?.error.code;

const { resume } = ready;
process.stdout.write(JSON.stringify({ ok, code, roots, resume, state: accepted.state, types: [...types], texts }) + "\n");
process.exit(0);
