/** The client of a server. */

import { withoutServer, type Decision } from "./decision.js";
import { TollgateError, refused } from "./errors.js";
import { http } from "./http.js";
import { Breaker, Denials, seconds } from "./memory.js";
import { itemOf, type Answer, type Item, type Key, type Operation, type Question, type Transport } from "./question.js";

export interface ClientOptions {
  /** Sent as a bearer token over HTTP. */
  readonly token?: string;
  /** Where the rules, or the counters of limits as text, are. */
  readonly namespace?: string;
  /** The longest time of a call in seconds. Default 0.25. */
  readonly deadline?: number;
  /** What a hit without an answer is: an exception, allowed or denied. Default `error`. */
  readonly onFailure?: "error" | "open" | "closed";
  /** How many denials are remembered. Default 10,000. */
  readonly rememberDenials?: number;
  /**
   * Whether denials of rules are remembered too. Set it if no rule is an elastic window or charges
   * denied hits, because those count every attempt.
   */
  readonly rememberRules?: boolean;
  /** Used instead of the global `fetch`. */
  readonly fetch?: typeof globalThis.fetch;
}

/** One limit, a key and a cost of an all-or-nothing hit. */
export interface Hit {
  readonly limit: string;
  readonly key: Key;
  readonly cost?: number;
}

/**
 * Asks a tollgate server. `limit` is the name of a rule of the server, or a limit as text such as
 * `10/second burst=20`.
 *
 * ```ts
 * const client = new Client("http://127.0.0.1:8080");
 * const decision = await client.hit("10/second", "user:42");
 * if (!decision.allowed) console.log(`come back in ${decision.retryAfter} s`);
 * ```
 */
export class Client {
  readonly #transport: Transport;
  readonly #options: ClientOptions;
  readonly #denials: Denials;
  readonly #breaker = new Breaker();

  /** `server` is the URL of the HTTP port, or `resp(client)` for the RESP port. */
  constructor(server: string | URL | Transport, options: ClientOptions = {}) {
    const onFailure: string = options.onFailure ?? "error";
    if (!["error", "open", "closed"].includes(onFailure)) {
      throw refused(`onFailure ${onFailure}: must be error, open or closed`);
    }
    const isUrl = typeof server === "string" || server instanceof URL;
    this.#transport = isUrl ? http(server, options) : server;
    this.#options = options;
    this.#denials = new Denials(options.rememberDenials ?? 10_000, options.rememberRules ?? false);
  }

  /** Decides whether this key may make a request of this cost now, and charges it if so. */
  hit(limit: string, key: Key, cost = 1): Promise<Decision> {
    return this.#decide("hit", itemOf(limit, key, cost));
  }

  /** Returns the decision that a hit would get, and changes nothing. */
  peek(limit: string, key: Key, cost = 1): Promise<Decision> {
    return this.#decide("peek", itemOf(limit, key, cost));
  }

  /** Charges as many units as fit, from zero to `cost`. */
  take(limit: string, key: Key, cost: number): Promise<Decision> {
    return this.#decide("take", itemOf(limit, key, cost));
  }

  /** Charges without checking. */
  charge(limit: string, key: Key, units: number): Promise<Decision> {
    return this.#decide("charge", itemOf(limit, key, units));
  }

  /** Gives back units, the newest first: a correction. */
  refund(limit: string, key: Key, units = 1): Promise<Decision> {
    return this.#decide("refund", itemOf(limit, key, units));
  }

  /** Sets the units in use. */
  set(limit: string, key: Key, units: number): Promise<Decision> {
    return this.#decide("set", itemOf(limit, key, units));
  }

  /** Returns the units in use. */
  async usage(limit: string, key: Key): Promise<number> {
    return (await this.#answer("usage", [itemOf(limit, key)])) as number;
  }

  /** Forgets the key. True if it was not fresh. */
  async reset(limit: string, key: Key): Promise<boolean> {
    return (await this.#answer("reset", [itemOf(limit, key)])) as boolean;
  }

  /** Hits several limits or keys: all are charged or none is. */
  async hitAll(hits: readonly Hit[]): Promise<Decision> {
    const items = hits.map(({ limit, key, cost = 1 }) => itemOf(limit, key, cost));
    return (await this.#answer("all", items)) as Decision;
  }

  /**
   * Hits until the hit is allowed, and waits in between for as long as the server says. Returns the
   * denial if that would take longer than `timeout` seconds.
   */
  async wait(limit: string, key: Key, timeout: number, cost = 1): Promise<Decision> {
    const end = seconds() + timeout;
    for (;;) {
      const decision = await this.hit(limit, key, cost);
      const { allowed, retryAfter } = decision;
      if (allowed || retryAfter === null || seconds() + retryAfter > end) return decision;
      // Timers count whole milliseconds.
      const pause = Math.max(Math.ceil(retryAfter * 1000), 1);
      await new Promise((resolve) => setTimeout(resolve, pause));
    }
  }

  /** One limit of the server. */
  limiter(limit: string): Limiter {
    return {
      hit: (key, cost = 1) => this.hit(limit, key, cost),
      refund: (key, units = 1) => this.refund(limit, key, units),
    };
  }

  async #decide(operation: Operation, item: Item): Promise<Decision> {
    return (await this.#answer(operation, [item])) as Decision;
  }

  async #answer(operation: Operation, items: readonly Item[]): Promise<Answer> {
    const question: Question = { operation, items, namespace: this.#options.namespace };
    const known = this.#denials.recall(question);
    if (known !== undefined) return known;
    try {
      return await this.#send(question);
    } catch (error) {
      this.#denials.forget(question);
      const { onFailure = "error" } = this.#options;
      const decides = ["hit", "peek", "take", "all"].includes(operation);
      const failed = error instanceof TollgateError && error.kind !== "request";
      if (!failed || !decides || onFailure === "error") throw error;
      const cost = items.reduce((sum, item) => sum + (item.cost ?? 1), 0);
      return withoutServer(onFailure === "open", cost);
    }
  }

  async #send(question: Question): Promise<Answer> {
    const pause = this.#breaker.pause();
    if (pause > 0) {
      const what = `it failed ${this.#breaker.failures} times; the next try is in ${pause.toFixed(3)} s`;
      throw new TollgateError(`server not available: ${what}`, "unavailable");
    }
    const deadline = AbortSignal.timeout(Math.max(Math.ceil((this.#options.deadline ?? 0.25) * 1000), 1));
    try {
      const answer = await this.#transport.ask(question, deadline);
      this.#breaker.succeeded();
      this.#denials.learn(question, answer);
      return answer;
    } catch (error) {
      if (error instanceof TollgateError && ["unavailable", "lost"].includes(error.kind)) {
        this.#breaker.failed();
      } else {
        this.#breaker.succeeded();
      }
      throw error;
    }
  }
}

/** One limit, for middleware. */
export interface Limiter {
  hit(key: Key, cost?: number): Promise<Decision>;
  refund(key: Key, units?: number): Promise<Decision>;
}
