/** The middleware, in real servers of each framework. */

import assert from "node:assert/strict";
import { after, before, describe, test } from "node:test";

import { serve } from "@hono/node-server";
import { getConnInfo } from "@hono/node-server/conninfo";
import express from "express";
import { rateLimit as expressRateLimit } from "express-rate-limit";
import Fastify from "fastify";
import { Hono } from "hono";
import { Client, askedWait, clientAddress, paced } from "tollgate";
import { rateLimit as forExpress } from "tollgate/express";
import { TollgateStore } from "tollgate/express-rate-limit";
import { rateLimit as forFastify } from "tollgate/fastify";
import { rateLimit as forHono } from "tollgate/hono";

import { freePort, freshKey, startTollgate } from "./servers.js";

let server;
before(async () => { server = await startTollgate(); });
after(() => server.stop());

/** Each starts an application that answers `/` with what is left, and returns its URL and its end. */
const frameworks = {
  async express(options) {
    const app = express();
    app.use(forExpress(options));
    app.get("/", (_, res) => res.send(String(res.locals.rateLimit?.remaining)));
    const listener = await new Promise((resolve) => {
      const started = app.listen(0, "127.0.0.1", () => resolve(started));
    });
    return { url: `http://127.0.0.1:${listener.address().port}`, stop: () => listener.close() };
  },
  async fastify(options) {
    const app = Fastify();
    await app.register(forFastify, options);
    app.get("/", async (request) => String(request.rateLimit?.remaining));
    return { url: await app.listen({ port: 0, host: "127.0.0.1" }), stop: () => app.close() };
  },
  async hono(options) {
    const app = new Hono();
    app.use(forHono({ peer: (c) => getConnInfo(c).remote.address, ...options }));
    app.get("/", (c) => c.text(String(c.get("rateLimit")?.remaining)));
    const started = await new Promise((resolve) => {
      const listener = serve({ fetch: app.fetch, port: 0, hostname: "127.0.0.1" }, (info) =>
        resolve({ listener, port: info.port }));
    });
    return { url: `http://127.0.0.1:${started.port}`, stop: () => started.listener.close() };
  },
};

for (const [name, start] of Object.entries(frameworks)) {
  describe(name, () => {
    async function withApp(options, work) {
      const client = new Client(server.url, { deadline: 5, namespace: freshKey() });
      const app = await start({ server: client, limit: "1/minute name=api", ...options });
      try {
        await work((headers = {}, path = "/") => fetch(app.url + path, { headers }));
      } finally {
        await app.stop();
      }
    }

    test("describes decisions and refuses with all headers", () => withApp({}, async (ask) => {
      const first = await ask();
      assert.deepEqual([first.status, await first.text()], [200, "0"]);
      assert.equal(first.headers.get("ratelimit-policy"), '"api";q=1;w=60');
      const refused = await ask();
      assert.equal(refused.status, 429);
      assert.match(await refused.text(), /^too many requests: come back in \d+ s\n$/);
      assert.ok(["59", "60"].includes(refused.headers.get("retry-after")));
      assert.equal(refused.headers.get("cache-control"), "no-store");
      assert.equal((await ask({}, "/nowhere")).status, 429);
    }));

    test("a client cannot choose its address", () => withApp({}, async (ask) => {
      assert.equal((await ask({ "x-forwarded-for": "203.0.113.1" })).status, 200);
      assert.equal((await ask({ "x-forwarded-for": "203.0.113.2" })).status, 429);
    }));

    test("clients behind a proxy are told apart", () => withApp({ address: { behind: ["127.0.0.0/8"] } }, async (ask) => {
      assert.equal((await ask({ "x-forwarded-for": "6.6.6.6, 203.0.113.1" })).status, 200);
      assert.equal((await ask({ "x-forwarded-for": "7.7.7.7, 203.0.113.1" })).status, 429);
      assert.equal((await ask({ "x-forwarded-for": "203.0.113.2" })).status, 200);
    }));

    test("skip, cost, shadow, missing keys", async () => {
      await withApp({ skip: (head) => head.path === "/" }, async (ask) => {
        for (let turn = 0; turn < 3; turn += 1) assert.equal((await ask()).status, 200);
      });
      await withApp({ cost: 2, problemJson: true }, async (ask) => {
        const refused = await ask();
        assert.match(refused.headers.get("content-type"), /^application\/problem\+json/);
        assert.deepEqual((await refused.json())["violated-policies"], ["api"]);
      });
      await withApp({ shadow: true }, async (ask) => {
        for (let turn = 0; turn < 3; turn += 1) assert.equal((await ask()).status, 200);
      });
      await withApp({ key: () => undefined }, async (ask) => {
        assert.deepEqual([(await ask()).status, (await ask()).status], [200, 429]);
      });
      await withApp({ key: () => undefined, onMissing: 400 }, async (ask) => {
        assert.equal((await ask()).status, 400);
      });
    });

    test("a missing server is 503 or what the rule says", async () => {
      const url = `http://127.0.0.1:${await freePort()}`;
      for (const [onFailure, status] of [["error", 503], ["open", 200], ["closed", 429]]) {
        await withApp({ server: url, client: { onFailure } }, async (ask) => {
          assert.equal((await ask()).status, status);
        });
      }
    });
  });
}

test("addresses are read from the right, and IPv6 by its network", () => {
  const behind = clientAddress({ behind: ["10.0.0.0/8", "2001:db8:1::/48"] });
  assert.equal(behind("10.0.0.1", "6.6.6.6, 203.0.113.7, 10.0.0.2"), "203.0.113.7");
  assert.equal(behind("203.0.113.9", "6.6.6.6"), "203.0.113.9");
  assert.equal(behind("::ffff:10.0.0.1", "203.0.113.7:80"), "203.0.113.7");
  assert.equal(behind("10.0.0.1", "unknown"), undefined);
  assert.equal(behind("10.0.0.1", undefined), "10.0.0.1");
  assert.equal(behind("2001:db8:1::9", "[2001:db8:2::1]:443"), "2001:db8:2:0:0:0:0:0");
  const hops = clientAddress({ hops: 2 });
  assert.equal(hops(undefined, "203.0.113.7, 10.0.0.2"), "203.0.113.7");
  assert.equal(hops("10.0.0.1", "10.0.0.2"), undefined);
  assert.equal(clientAddress()("2001:db8::1:2:3:4", "6.6.6.6"), "2001:db8:0:0:0:0:0:0");
  assert.equal(clientAddress({ ipv6Prefix: 128 })("::1", ""), "0:0:0:0:0:0:0:1");
  for (const proxy of ["10.0.0.0/33", "10.0.0.256", "::1::", "a", "10.0.0.0/x"]) {
    assert.throws(() => clientAddress({ behind: [proxy] }), /must be an address or a range/);
  }
  assert.throws(() => clientAddress({ behind: [], hops: 1 }), /only one of them/);
});

test("express-rate-limit changes one line", async () => {
  const prefix = freshKey();
  const listeners = [];
  const urls = await Promise.all([1, 2].map(async () => {
    const app = express();
    app.use(expressRateLimit({
      windowMs: 60_000,
      limit: 3,
      standardHeaders: "draft-8",
      store: new TollgateStore(server.url, { prefix, deadline: 5 }),
    }));
    app.get("/", (req, res) => res.send(String(req.rateLimit.used)));
    const listener = await new Promise((resolve) => {
      const started = app.listen(0, "127.0.0.1", () => resolve(started));
    });
    listeners.push(listener);
    return `http://127.0.0.1:${listener.address().port}/`;
  }));
  // Two processes share one count, and denied requests count as they do in memory.
  const statuses = [];
  for (const turn of [0, 1, 0, 1, 0]) statuses.push((await fetch(urls[turn])).status);
  assert.deepEqual(statuses, [200, 200, 200, 429, 429]);
  const store = new TollgateStore(server.url, { prefix, deadline: 5 });
  store.init({ windowMs: 60_000 });
  const key = "127.0.0.1";
  const { totalHits, resetTime } = await store.get(key);
  assert.equal(totalHits, 5);
  assert.ok(resetTime.getTime() > Date.now() + 30_000);
  await store.decrement(key);
  assert.equal((await store.increment(key)).totalHits, 5);
  await store.resetKey(key);
  assert.equal(await store.get(key), undefined);
  assert.equal((await fetch(urls[0])).status, 200);
  for (const listener of listeners) listener.close();
});

test("a paced fetch waits for as long as the server says", async () => {
  const sent = [];
  const answers = [
    new Response("", { status: 429, headers: { "retry-after": "1" } }),
    new Response("", { headers: { ratelimit: '"a,b";r=5;t=9' } }),
    new Response(""),
  ];
  const fetch = paced({
    fetch: async () => {
      sent.push(performance.now());
      return answers.shift();
    },
  });
  assert.equal((await fetch("http://127.0.0.1/a")).status, 429);
  await fetch("http://127.0.0.1/b");
  await fetch("http://127.0.0.1/c");
  assert.ok(sent[1] - sent[0] >= 990, "the second waits");
  assert.ok(sent[2] - sent[1] < 900, "the third does not");
  const busy = paced({ fetch: async () => new Response("", { status: 503, headers: { "retry-after": "30" } }) });
  await busy("http://127.0.0.1/");
  await assert.rejects(busy("http://127.0.0.1/", { signal: AbortSignal.timeout(10) }), { name: "TimeoutError" });
});

test("what a response asks its client to wait", () => {
  const wait = (status, headers) => askedWait(new Response("", { status, headers }));
  assert.equal(wait(200, { "retry-after": "7" }), 0);
  assert.equal(wait(429, { "retry-after": "7" }), 7);
  const date = new Date(Date.now() + 5000).toUTCString();
  assert.ok(wait(503, { "retry-after": date }) > 3);
  assert.equal(wait(429, { "retry-after": "soon", ratelimit: '"x";r=0;t=4' }), 4);
  assert.equal(wait(200, { ratelimit: '"x;r=0;t=9";r=1;t=4, "y";r=0;t=3' }), 3);
  assert.equal(wait(200, {}), 0);
});
