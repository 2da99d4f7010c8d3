// Clients that come one after another into a running stream and upgrade in the middle of it.
// Each says what it found wrong in the numbers it heard, when it has heard the last.
import { io } from "socket.io-client";

const { url, token, clients, last, every } = JSON.parse(process.argv[2]);

const join = (index) =>
  new Promise((resolve) => {
    // Half of them upgrade as they always do, half after they have polled some events.
    const late = index % 2 === 1;
    const socket = io(url, { auth: { token }, forceNew: true, upgrade: !late });
    const engine = () => socket.io.engine;
    const wrong = [];
    const polled = { events: 0 };
    let previous = null;
    socket.on("disconnect", (reason) => wrong.push(reason));
    socket.on("event", ({ message }) => {
      if (message === last) {
        socket.off("disconnect");
        const transport = engine().transport.name;
        socket.disconnect();
        resolve({ index, late, transport, polled: polled.events, heard: previous, wrong });
        return;
      }
      if (previous !== null && message !== previous + 1) wrong.push([previous, message]);
      previous = message;
      if (engine().transport.name === "polling" && ++polled.events === 20 && late) engine()._probe("websocket");
    });
  });

const all = [];
for (let index = 0; index < clients; index++) {
  all.push(join(index));
  await new Promise((resolve) => setTimeout(resolve, every));
}
process.stdout.write(JSON.stringify(await Promise.all(all)));
