/** Decides on requests. The frameworks translate. */

import { clientAddress, type ClientAddressOptions } from "./address.js";
import { Client, type ClientOptions, type Limiter } from "./client.js";
import { secondsUp, type Decision } from "./decision.js";
import { TollgateError, refused } from "./errors.js";
import type { Key } from "./question.js";

/** The head of a request, the same for every framework. */
export interface Head<R> {
  readonly method: string;
  readonly path: string;
  /** The address of the other end of the connection, if it is known. */
  readonly peer: string | undefined;
  /** The value of a header. */
  header(name: string): string | undefined;
  /** What the framework calls a request. */
  readonly request: R;
}

/** The settings that all frameworks share. */
export interface GateOptions<R> {
  /** The URL of a server, or a client. */
  readonly server: string | URL | Client;
  /** The name of a rule, or a limit as text. */
  readonly limit: string;
  /** Settings of the client, if `server` is a URL. */
  readonly client?: ClientOptions;
  /** What a request is limited by. Default: the address of the client. */
  readonly key?: (head: Head<R>) => Key | undefined | Promise<Key | undefined>;
  /** How the address of the client is found. Name your proxies here. */
  readonly address?: ClientAddressOptions;
  /** Units of a request. Default 1. */
  readonly cost?: number | ((head: Head<R>) => number);
  /** Requests that are not limited. */
  readonly skip?: (head: Head<R>) => boolean | Promise<boolean>;
  /** The status for requests without a key. Without it they share one bucket. */
  readonly onMissing?: number;
  /** Whether refusals have a body of `application/problem+json`. */
  readonly problemJson?: boolean;
  /** Decides, and refuses nobody. */
  readonly shadow?: boolean;
}

/** A response to a request that does not pass. */
export interface Refusal {
  readonly status: number;
  readonly headers: Readonly<Record<string, string>>;
  readonly body: string;
}

/** What a gate says about a request. */
export interface Admission {
  readonly decision?: Decision | undefined;
  /** For the response of the handler. */
  readonly headers: Readonly<Record<string, string>>;
  readonly refusal?: Refusal | undefined;
}

/** The bucket of all requests without a key. */
const KEYLESS: Key = ["tollgate", "no key"];

const PLAIN = { "content-type": "text/plain; charset=utf-8", "cache-control": "no-store" };

export class Gate<R> {
  readonly #limiter: Limiter;
  readonly #options: GateOptions<R>;
  readonly #address: ReturnType<typeof clientAddress>;

  constructor(options: GateOptions<R>) {
    if (typeof options.limit !== "string" || options.limit === "") {
      throw refused("limit: must be the name of a rule, or a limit such as 100/minute");
    }
    const { server } = options;
    const client = server instanceof Client ? server : new Client(server, options.client);
    this.#limiter = client.limiter(options.limit);
    this.#options = options;
    this.#address = clientAddress(options.address);
  }

  async admit(head: Head<R>): Promise<Admission> {
    const { skip, cost = 1, onMissing } = this.#options;
    if (skip !== undefined && (await skip(head))) return { headers: {} };
    const key = await this.#key(head);
    if (key === undefined && onMissing !== undefined) {
      const body = "this request cannot be limited: it has no key\n";
      return this.#refused({ status: onMissing, headers: PLAIN, body });
    }
    try {
      const units = typeof cost === "function" ? cost(head) : cost;
      return this.#decided(await this.#limiter.hit(key ?? KEYLESS, units));
    } catch (error) {
      if (!(error instanceof TollgateError) || error.kind === "request") throw error;
      return this.#refused({ status: 503, headers: PLAIN, body: "the rate limit could not be checked\n" });
    }
  }

  async #key(head: Head<R>): Promise<Key | undefined> {
    const { key } = this.#options;
    return key === undefined ? this.#address(head.peer, head.header("x-forwarded-for")) : await key(head);
  }

  #decided(decision: Decision): Admission {
    if (decision.allowed) return { decision, headers: decision.headers };
    const [type, body] = this.#options.problemJson
      ? ["application/problem+json", problem(decision)]
      : [PLAIN["content-type"], text(decision)];
    const headers = { ...PLAIN, "content-type": type, ...decision.headers };
    return this.#refused({ status: 429, headers, body }, decision);
  }

  #refused(refusal: Refusal, decision?: Decision): Admission {
    const { "retry-after": _, ...headers } = decision?.headers ?? {};
    return this.#options.shadow ? { decision, headers } : { decision, headers, refusal };
  }
}

function text({ retryAfter }: Decision): string {
  return retryAfter === null
    ? "too much for one request: it costs more than the limit ever allows\n"
    : `too many requests: come back in ${secondsUp(retryAfter)} s\n`;
}

function problem(decision: Decision): string {
  const { retryAfter } = decision;
  const limits = decision.outcomes.length > 0 ? decision.outcomes : [decision];
  const seconds = retryAfter === null ? 0 : secondsUp(retryAfter);
  return JSON.stringify({
    type: "https://iana.org/assignments/http-problem-types#quota-exceeded",
    title: "Too many requests",
    status: 429,
    detail:
      retryAfter === null
        ? "this request costs more than the quota ever allows"
        : `come back in ${seconds} second${seconds === 1 ? "" : "s"}`,
    "violated-policies": limits.flatMap((one) => (one.allowed || one.name === undefined ? [] : [one.name])),
  });
}
