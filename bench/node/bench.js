/**
 * The client beside rate-limiter-flexible on the same Redis: `cargo xtask bench node`. The client asks
 * a tollgate server that keeps its counts in that Redis. Contenders take turns; figures are medians.
 */

import { Redis } from "ioredis";
import { RateLimiterRedis } from "rate-limiter-flexible";
import { Client, resp } from "tollgate";

const [redisUrl, httpUrl, respPort] = process.argv.slice(2);
const TURNS = 7;
const MANY = 1_000_000_000;

const redis = new Redis(redisUrl);
const port = new Redis(Number(respPort), "127.0.0.1", { maxRetriesPerRequest: 0 });
const flexible = new RateLimiterRedis({ storeClient: redis, points: MANY, duration: 60 });
const strict = new RateLimiterRedis({ storeClient: redis, points: 1, duration: 60, keyPrefix: "strict" });
const blocking = new RateLimiterRedis({
  storeClient: redis, points: 1, duration: 60, keyPrefix: "blocking", inMemoryBlockOnConsumed: 1,
});
const overHttp = new Client(httpUrl, { deadline: 5 });
const overResp = new Client(resp(port), { deadline: 5 });
const limit = `${MANY}/minute`;

const admitted = {
  "tollgate over HTTP": () => overHttp.hit(limit, "user:42"),
  "tollgate over RESP": () => overResp.hit(limit, "user:42"),
  "rate-limiter-flexible": () => flexible.consume("user:42"),
};
const denied = {
  "tollgate over HTTP": () => overHttp.hit("1/minute", "denied"),
  "tollgate over RESP": () => overResp.hit("1/minute", "denied"),
  "rate-limiter-flexible": () => strict.consume("user:42").catch(() => undefined),
  "rate-limiter-flexible, inMemoryBlockOnConsumed": () => blocking.consume("user:42").catch(() => undefined),
};

await print("Admitted, one caller", admitted, 1, 500);
await print("Admitted, 64 callers at the same time", admitted, 64, 50);
await print("Denied again and again, one caller", denied, 1, 2000);
redis.disconnect();
port.disconnect();

async function print(title, calls, callers, hits) {
  const rates = Object.fromEntries(Object.keys(calls).map((name) => [name, []]));
  for (let turn = 0; turn < TURNS; turn += 1) {
    for (const [name, call] of Object.entries(calls)) rates[name].push(await rate(call, callers, hits));
  }
  const base = median(rates["rate-limiter-flexible"]);
  const rows = Object.entries(rates).map(([name, all]) => {
    const figure = median(all);
    return `| ${name} | ${Math.round(figure).toLocaleString("en-US")} | ${(figure / base).toFixed(2)} |`;
  });
  console.log(`## ${title}\n\n| | hits per second | beside rate-limiter-flexible |\n| --- | ---: | ---: |`);
  console.log(`${rows.join("\n")}\n`);
}

async function rate(call, callers, hits) {
  const begin = performance.now();
  await Promise.all(Array.from({ length: callers }, async () => {
    for (let turn = 0; turn < hits; turn += 1) await call();
  }));
  return (callers * hits) / ((performance.now() - begin) / 1000);
}

function median(numbers) {
  return numbers.toSorted((a, b) => a - b)[Math.floor(numbers.length / 2)];
}
