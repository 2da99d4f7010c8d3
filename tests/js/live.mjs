// A Socket.IO client under remote control: options as one JSON argument, commands as JSON lines on stdin,
// and everything that happens to it as JSON lines on stdout.
import { createInterface } from "node:readline";
import { io } from "socket.io-client";

const { url, options } = JSON.parse(process.argv[2]);
const tell = (kind, value) => process.stdout.write(JSON.stringify([kind, value ?? null]) + "\n");

const socket = io(url, options);
const transport = () => socket.io.engine?.transport.name;
socket.on("connect", () => {
  tell("connect", transport());
  socket.io.engine.on("upgrade", () => tell("upgrade", transport()));
});
socket.on("connect_error", (error) => tell("connect_error", { message: error.message, data: error.data }));
socket.on("disconnect", (reason) => tell("disconnect", reason));
socket.on("ready", (ready) => tell("ready", ready));
socket.on("event", (event) => {
  if (event.cursor && socket.auth.follow) socket.auth.since = event.cursor;
  tell("event", event);
});
socket.on("closed", (closed) => tell("closed", closed));

const commands = {
  emit: ([name, ...args]) => socket.emit(name, ...args),
  call: ([name, ...args]) => socket.emit(name, ...args, (answer) => tell("answer", answer)),
  connect: () => socket.connect(),
  disconnect: () => socket.disconnect(),
};
const lines = createInterface({ input: process.stdin });
lines.on("line", (line) => {
  const [command, value] = JSON.parse(line);
  commands[command](value);
});
lines.on("close", () => process.exit(0));
