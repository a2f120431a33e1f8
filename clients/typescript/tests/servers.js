/** A real tollgate server for tests, on free ports of the loopback. */

import { spawn } from "node:child_process";
import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { connect, createServer } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";

const RULES = `
[store]
url = "memory:"
[limits]
api = "1000/day"
login = "5/minute sliding-window; 20/day"
strict = "1/day name=strict"
[limits.open]
limit = "1/day"
exempt = ["monitor"]
`;

export async function freePort() {
  const server = createServer().listen(0, "127.0.0.1");
  await new Promise((resolve) => server.once("listening", resolve));
  const { port } = server.address();
  await new Promise((resolve) => server.close(resolve));
  return port;
}

export async function startTollgate(port = undefined) {
  const program = process.env.TOLLGATE_BIN ?? "tollgate";
  const http = port ?? (await freePort());
  const resp = await freePort();
  const directory = await mkdtemp(join(tmpdir(), "tollgate-"));
  const config = join(directory, "tollgate.toml");
  const ports = `[server]\nhttp = "127.0.0.1:${http}"\nresp = "127.0.0.1:${resp}"\n`;
  await writeFile(config, `${RULES}${ports}grpc = "off"\nadmin = "off"\n`);
  const child = spawn(program, ["serve", "--config", config], { stdio: "ignore" });
  const ended = new Promise((resolve, reject) => {
    child.once("exit", resolve);
    child.once("error", reject);
  });
  await Promise.race([listening(http), ended.then((code) => {
    throw new Error(`${program} ended with ${code}`);
  })]);
  await listening(resp);
  return {
    url: `http://127.0.0.1:${http}`,
    port: http,
    resp,
    child,
    async stop() {
      child.kill("SIGKILL");
      await ended;
      await rm(directory, { recursive: true });
    },
  };
}

async function listening(port) {
  for (;;) {
    const isListening = await new Promise((resolve) => {
      const socket = connect(port, "127.0.0.1");
      socket.once("connect", () => resolve(true));
      socket.once("error", () => resolve(false));
      socket.unref();
      setTimeout(() => socket.destroy(), 1000).unref();
    });
    if (isListening) return;
    await new Promise((resolve) => setTimeout(resolve, 5));
  }
}

let keys = 0;

/** A key that no other test has. */
export function freshKey() {
  keys += 1;
  return `${process.pid}-${keys}`;
}
