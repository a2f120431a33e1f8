/**
 * A store for express-rate-limit, so that many processes share its counts.
 *
 * ```ts
 * app.use(rateLimit({ windowMs: 60_000, limit: 100, store: new TollgateStore("http://127.0.0.1:8080") }));
 * ```
 */

import { Client, type ClientOptions } from "./client.js";
import type { Decision } from "./decision.js";

/** What express-rate-limit wants to know about a key. */
export interface ClientRateLimitInfo {
  totalHits: number;
  resetTime: Date | undefined;
}

export interface TollgateStoreOptions extends ClientOptions {
  /** Tells the counters of several middlewares apart. Default `express-rate-limit`. */
  readonly prefix?: string;
}

/** Counts like the store in memory: a window for each key, from its first request; denied ones count. */
export class TollgateStore {
  readonly localKeys = false;
  readonly prefix: string;
  readonly #client: Client;
  #limit = "";

  constructor(server: string | URL | Client, options: TollgateStoreOptions = {}) {
    this.#client = server instanceof Client ? server : new Client(server, options);
    this.prefix = options.prefix ?? "express-rate-limit";
  }

  /** Called by express-rate-limit with its options. */
  init({ windowMs }: { windowMs: number }): void {
    // The middleware compares the count with its limit, which may differ between requests. The name
    // identifies the counter, whatever the quota is.
    const name = JSON.stringify(this.prefix);
    this.#limit = `1000000000 per ${Math.ceil(windowMs)} ms fixed-window-per-key name=${name}`;
  }

  async get(key: string): Promise<ClientRateLimitInfo | undefined> {
    const decision = await this.#client.peek(this.#limit, key);
    return decision.used === 0 ? undefined : info(decision);
  }

  async increment(key: string): Promise<ClientRateLimitInfo> {
    return info(await this.#client.charge(this.#limit, key, 1));
  }

  async decrement(key: string): Promise<void> {
    await this.#client.refund(this.#limit, key, 1);
  }

  async resetKey(key: string): Promise<void> {
    await this.#client.reset(this.#limit, key);
  }
}

function info({ used, resetAfter }: Decision): ClientRateLimitInfo {
  return { totalHits: used, resetTime: new Date(Date.now() + resetAfter * 1000) };
}
