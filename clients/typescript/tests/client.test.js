/** The client, over HTTP and over RESP, against a real server. */

import assert from "node:assert/strict";
import { createServer } from "node:net";
import { after, before, describe, test } from "node:test";

import { Redis } from "ioredis";
import { createClient } from "redis";
import { Client, TollgateError, resp } from "tollgate";

import { freePort, freshKey, startTollgate } from "./servers.js";

let server, redis2, redis3, ioredis;

before(async () => {
  server = await startTollgate();
  const url = `redis://127.0.0.1:${server.resp}`;
  redis2 = await createClient({ url, RESP: 2 }).connect();
  redis3 = await createClient({ url, RESP: 3 }).connect();
  ioredis = new Redis(server.resp, "127.0.0.1", { maxRetriesPerRequest: 0 });
});

after(async () => {
  redis2.destroy();
  redis3.destroy();
  ioredis.disconnect();
  await server.stop();
});

const transports = {
  http: () => server.url,
  "redis, RESP 2": () => resp(redis2),
  "redis, RESP 3": () => resp(redis3),
  ioredis: () => resp(ioredis),
};

for (const [name, transport] of Object.entries(transports)) {
  describe(name, () => {
    const client = (options = {}) => new Client(transport(), { deadline: 5, ...options });

    test("every operation of the server", async () => {
      const [one, key] = [client(), freshKey()];
      const hit = await one.hit("api", key, 3);
      assert.deepEqual(
        [hit.allowed, hit.limit, hit.used, hit.remaining, hit.charged, hit.retryAfter],
        [true, 1000, 3, 997, 3, 0],
      );
      assert.deepEqual([hit.verdict, hit.source, hit.bound], ["allowed", "store", 0]);
      assert.ok(hit.resetAfter > 259 && hit.resetAfter <= 259.2);
      assert.equal((await one.peek("api", key)).used, 3);
      assert.equal((await one.take("api", key, 5)).charged, 5);
      assert.equal((await one.charge("api", key, 2)).used, 10);
      assert.equal((await one.refund("api", key, 4)).used, 6);
      assert.equal((await one.set("api", key, 9)).used, 9);
      assert.equal(await one.usage("api", key), 9);
      assert.equal(await one.reset("api", key), true);
      assert.equal(await one.reset("api", key), false);
    });

    test("a denial says when to come back, or that it is never", async () => {
      const [one, key] = [client(), freshKey()];
      const never = await one.hit("login", key, 6);
      assert.deepEqual([never.allowed, never.retryAfter], [false, null]);
      assert.deepEqual(never.outcomes.map((outcome) => outcome.allowed), [false, true]);
      await one.hit("1/hour", key);
      const later = await one.hit("1/hour", key);
      assert.ok(later.retryAfter > 3590 && later.retryAfter <= 3600);
      assert.equal(later.headers["retry-after"], String(Math.ceil(later.retryAfter)));
    });

    test("all hits or none", async () => {
      const [one, key] = [client(), freshKey()];
      const denied = await one.hitAll([{ limit: "9/hour", key }, { limit: "2/hour", key, cost: 3 }]);
      assert.deepEqual([denied.allowed, denied.retryAfter], [false, null]);
      assert.equal(await one.usage("9/hour", key), 0);
      assert.ok((await one.hitAll([{ limit: "9/hour", key }, { limit: "2/hour", key }])).allowed);
    });

    test("mistakes are errors and never decisions", async () => {
      const one = client({ onFailure: "open" });
      const isRequest = (error) => error instanceof TollgateError && error.kind === "request";
      await assert.rejects(one.hit("nobody", "a"), isRequest);
      await assert.rejects(one.hit("10/fortnight", "a"), isRequest);
      assert.throws(() => one.hit("api", "a", -1), /cost -1: must be a whole number/);
      assert.throws(() => one.hit("api", 1.5), /key 1.5: must be/);
    });

    test("denials are remembered until the client gives something back", async () => {
      const [one, key] = [client(), freshKey()];
      await one.hit("2/hour", key, 2);
      const denied = await one.hit("2/hour", key);
      const repeated = await one.hit("2/hour", key);
      assert.deepEqual([denied.source, repeated.source], ["store", "denial_cache"]);
      assert.ok(repeated.retryAfter <= denied.retryAfter && !repeated.allowed);
      assert.equal((await one.hit("2/hour", key, 0)).source, "store");
      await one.hit("2/hour", key);
      assert.ok(await one.reset("2/hour", key));
      assert.ok((await one.hit("2/hour", key)).allowed);
    });

    for (const limit of ["1/hour elastic-window", "1/hour fixed-window charge-denied", "strict"]) {
      test(`denials of ${limit} are not repeated`, async () => {
        const [one, key] = [client(), freshKey()];
        for (let turn = 0; turn < 3; turn += 1) {
          assert.equal((await one.hit(limit, key)).source, "store");
        }
      });
    }

    test("a wait ends when the hit is allowed", async () => {
      const [one, key] = [client(), freshKey()];
      for (let turn = 0; turn < 3; turn += 1) {
        assert.ok((await one.wait("50/second burst=1", key, 5)).allowed);
      }
      await one.hit("1/hour", key);
      assert.equal((await one.wait("1/hour", key, 5)).allowed, false);
    });

    test("concurrent callers admit exactly the limit", async () => {
      const [one, key] = [client({ deadline: 20 }), freshKey()];
      const all = await Promise.all(Array.from({ length: 120 }, () => one.hit("50/hour", key)));
      assert.equal(all.filter((decision) => decision.allowed).length, 50);
    });

    test("an exempt key has no figures", async () => {
      const decision = await client().hit("open", "monitor");
      assert.deepEqual([decision.allowed, decision.verdict, decision.limit], [true, "exempt", decision.limit]);
      assert.ok(decision.limit <= 0);
    });
  });
}

test("keys of several parts go over HTTP only", async () => {
  const [one, key] = [new Client(server.url, { deadline: 5 }), freshKey()];
  assert.equal((await one.hit("7/hour", [key, 7])).remaining, 6);
  assert.equal((await one.hit("7/hour", [key, "7"])).remaining, 5);
  assert.equal((await one.hit("7/hour", `${key}7`)).remaining, 6);
  await assert.rejects(new Client(resp(ioredis)).hit("7/hour", [key, 7]), /only keys of one part/);
});

test("denials of rules are remembered on request", async () => {
  const [one, key] = [new Client(server.url, { deadline: 5, rememberRules: true }), freshKey()];
  await one.hit("strict", key);
  assert.equal((await one.hit("strict", key)).source, "store");
  assert.equal((await one.hit("strict", key)).source, "denial_cache");
});

test("a missing server decides by the rule for failures", async () => {
  const url = `http://127.0.0.1:${await freePort()}`;
  const one = new Client(url, { deadline: 5 });
  for (let turn = 0; turn < 3; turn += 1) {
    await assert.rejects(one.hit("1/hour", "a"), { name: "TollgateError", kind: "unavailable" });
  }
  await assert.rejects(one.hit("1/hour", "a"), /failed 3 times; the next try is in/);
  const open = await new Client(url, { onFailure: "open" }).hit("1/hour", "a", 2);
  assert.deepEqual([open.allowed, open.source, open.charged], [true, "fail_open", 2]);
  const closed = await new Client(url, { onFailure: "closed" }).hit("1/hour", "a");
  assert.deepEqual([closed.allowed, closed.source, closed.retryAfter], [false, "fail_closed", 1]);
  await assert.rejects(new Client(url, { onFailure: "open" }).reset("1/hour", "a"));
});

test("a silent server is given up at the deadline", async () => {
  const silent = createServer(() => {}).listen(0, "127.0.0.1");
  await new Promise((resolve) => silent.once("listening", resolve));
  const client = new Client(`http://127.0.0.1:${silent.address().port}`, { deadline: 0.05 });
  await assert.rejects(client.hit("1/hour", "a"), { kind: "lost", isTransient: true });
  silent.close();
});

test("settings are checked", () => {
  assert.throws(() => new Client("redis://127.0.0.1"), /must begin with http/);
  assert.throws(() => new Client("http://a", { onFailure: "shrug" }), /onFailure shrug: must be error/);
});
