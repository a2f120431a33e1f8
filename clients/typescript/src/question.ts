/** Questions to a server. */

import type { Decision } from "./decision.js";
import { refused } from "./errors.js";

/** A text, a whole number (which is its digits), or a list of them. */
export type Key = string | number | bigint | readonly (string | number | bigint)[];

export type Operation =
  | "hit" | "peek" | "take" | "charge" | "refund" | "set" | "usage" | "reset" | "all";

export interface Item {
  readonly limit: string;
  readonly key: string | readonly string[];
  readonly cost: number | undefined;
}

export interface Question {
  readonly operation: Operation;
  /** One item, but for `all`. */
  readonly items: readonly Item[];
  readonly namespace: string | undefined;
}

/** What a transport returns: a decision, the units in use, or whether a key was not fresh. */
export type Answer = Decision | number | boolean;

/** Sends questions to a server. It throws `TollgateError` if there is no answer. */
export interface Transport {
  ask(question: Question, signal: AbortSignal): Promise<Answer>;
}

export function itemOf(limit: string, key: Key, cost?: number): Item {
  if (cost !== undefined && !(Number.isSafeInteger(cost) && cost >= 0)) {
    throw refused(`cost ${cost}: must be a whole number of at least 0`);
  }
  const wanted = typeof key === "object" ? key.map(part) : part(key);
  return { limit, key: wanted, cost };
}

function part(key: string | number | bigint): string {
  if (typeof key === "string" || typeof key === "bigint") return String(key);
  if (Number.isSafeInteger(key)) return String(key);
  throw refused(`key ${String(key)}: must be a text, a whole number, or a list of them`);
}
