/** A `fetch` that obeys the limits of the servers that it calls. */

import { seconds } from "./memory.js";

export interface PaceOptions {
  /** Used instead of the global `fetch`. */
  readonly fetch?: typeof globalThis.fetch;
  /** The longest time in seconds that a request is held back. Default 60. */
  readonly longest?: number;
  /** Which requests share a limit. Default: those to one origin. */
  readonly key?: (request: Request) => string;
}

/**
 * Holds requests back while a server has said that there is nothing left: by `Retry-After` of a
 * response with status 429 or 503, and by `RateLimit` with nothing remaining (`r=0;t=12`). It does
 * not send a request twice.
 */
export function paced(options: PaceOptions = {}): typeof globalThis.fetch {
  const until = new Map<string, number>();
  const keyOf = options.key ?? ((request: Request) => new URL(request.url).origin);
  const longest = options.longest ?? 60;
  return async (input, init) => {
    const request = new Request(input, init);
    const key = keyOf(request);
    for (let left = pause(); left > 0; left = pause()) {
      await sleep(Math.min(left, longest), request.signal);
    }
    const response = await (options.fetch ?? globalThis.fetch)(request);
    const wait = askedWait(response);
    if (wait > 0) until.set(key, Math.max(until.get(key) ?? 0, seconds() + Math.min(wait, longest)));
    return response;

    function pause(): number {
      const left = (until.get(key) ?? 0) - seconds();
      if (left <= 0) until.delete(key);
      return left;
    }
  };
}

/** How many seconds a response asks its client to wait; 0 if it does not. */
export function askedWait(response: Response): number {
  const refused = response.status === 429 || response.status === 503;
  const after = refused ? retryAfter(response.headers.get("retry-after")) : undefined;
  return after ?? nothingLeft(response.headers.get("ratelimit")) ?? 0;
}

/** Seconds, or a date. */
function retryAfter(value: string | null): number | undefined {
  if (value === null) return undefined;
  if (/^\d+$/.test(value.trim())) return Number(value);
  const at = Date.parse(value);
  return Number.isNaN(at) ? undefined : Math.max((at - Date.now()) / 1000, 0);
}

/** The longest `t` of the items of `RateLimit` with `r=0`. */
function nothingLeft(value: string | null): number | undefined {
  if (value === null) return undefined;
  // Commas and semicolons inside of a quoted name do not separate.
  const bare = value.replace(/"(?:[^"\\]|\\.)*"/g, "name");
  const waits = bare.split(",").map((item) => {
    const parameters = new Map(item.split(";").slice(1).map((one) => {
      const [name = "", number = ""] = one.trim().split("=");
      return [name, number] as const;
    }));
    const wait = Number(parameters.get("t"));
    return parameters.get("r") === "0" && wait > 0 ? wait : 0;
  });
  return Math.max(...waits);
}

function sleep(span: number, signal: AbortSignal): Promise<void> {
  return new Promise((resolve, reject) => {
    const abort = () => {
      clearTimeout(timer);
      reject(signal.reason as Error);
    };
    const timer = setTimeout(() => {
      signal.removeEventListener("abort", abort);
      resolve();
    }, Math.ceil(span * 1000));
    if (signal.aborted) abort();
    signal.addEventListener("abort", abort, { once: true });
  });
}
