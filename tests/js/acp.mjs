// The official TypeScript SDK as a client. First argument: JSON {url, token} or {command}; then what to do, as JSON:
// a list of steps, each [method, params] or [method, params, words], which goes on when these words were heard and
// does not wait for the answer. "$id" stands for the session of the latest session/new. Everything that
// happens is one line of JSON on stdout.
import { spawn } from "node:child_process";
import { Readable, Writable } from "node:stream";
import * as acp from "@agentclientprotocol/sdk/unstable";
import { createWebSocketStream } from "@agentclientprotocol/sdk/experimental/ws-client";
import WebSocket from "ws";

const { url, token, command, capabilities, choose, form } = JSON.parse(process.argv[2]);
const steps = JSON.parse(process.argv[3]);
const tell = (kind, value) => process.stdout.write(JSON.stringify([kind, value ?? null]) + "\n");

let child;
let stream;
if (url) {
  stream = createWebSocketStream(url, { WebSocket, headers: { authorization: `Bearer ${token}` } });
} else {
  child = spawn(command[0], command.slice(1), { stdio: ["pipe", "pipe", "inherit"] });
  stream = acp.ndJsonStream(Writable.toWeb(child.stdin), Readable.toWeb(child.stdout));
}

let text = "";
let listeners = [];
const heard = (words) => new Promise((resolve) => listeners.push(() => text.includes(words) && resolve()));

const client = acp
  .client({ name: "farsteer-test" })
  .onNotification(acp.methods.client.session.update, ({ params }) => {
    tell("update", params.update);
    text += params.update.content?.text ?? "";
    listeners.forEach((listen) => listen());
  })
  .onRequest(acp.methods.client.session.requestPermission, ({ params }) => {
    tell("permission", params);
    const option = params.options.find((one) => one.kind === (choose ?? "allow_once"));
    return { outcome: { outcome: "selected", optionId: option.optionId } };
  })
  .onRequest(acp.methods.client.elicitation.create, ({ params }) => {
    tell("elicitation", params);
    return { action: "accept", content: form };
  });

let session;
const filled = (params) => JSON.parse(JSON.stringify(params).replaceAll('"$id"', JSON.stringify(session)));
await client.connectWith(stream, async (agent) => {
  const hello = await agent.request("initialize", {
    protocolVersion: acp.PROTOCOL_VERSION,
    clientCapabilities: capabilities ?? {},
    clientInfo: { name: "farsteer-test", version: "1" },
  });
  tell("initialize", hello);
  for (const [method, params, later] of steps) {
    try {
      if (method === "session/cancel") {
        await agent.notify(method, filled(params));
        continue;
      }
      const asked = agent.request(method, filled(params));
      if (later) {
        asked.then((result) => tell(`${method} (later)`, result));
        await heard(later);
        continue;
      }
      const result = await asked;
      if (method === "session/new") session = result.sessionId;
      tell(method, result);
    } catch (error) {
      tell("error", { method, code: error.code, message: error.message });
    }
  }
});
if (child) {
  child.stdin.end();
  await new Promise((resolve) => child.on("exit", resolve));
}
process.exit(0);
