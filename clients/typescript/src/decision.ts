/** Decisions of a server. */

/** What the server, or this client in its place, said. */
export type Verdict = "allowed" | "denied" | "shadowed" | "exempt" | "blocked";

/** The figures of one limit. Times are seconds. */
export interface Outcome {
  readonly allowed: boolean;
  /** The name of the limit, if it has one. */
  readonly name: string | undefined;
  /** The capacity: the quota, or the burst of a bucket. */
  readonly limit: number;
  /** The largest cost that would still pass. */
  readonly remaining: number;
  /** The units in use. */
  readonly used: number;
  /** Seconds until this cost passes: 0 if it did, `null` if it never will. */
  readonly retryAfter: number | null;
  /** Seconds until the key is fresh. */
  readonly resetAfter: number;
  /** The units that this call charged. */
  readonly charged: number;
}

/** The answer to a hit. A denial is a value and never an exception. */
export interface Decision extends Outcome {
  readonly verdict: Verdict;
  /** `store`, or what decided in its place: `denial_cache`, `fail_open`, `fail_closed`, ... */
  readonly source: string;
  /** Units that may have been admitted beyond the limit; `null` if that is unknown. */
  readonly bound: number | null;
  /** The outcome of each limit, if there are several. */
  readonly outcomes: readonly Outcome[];
  /** The headers that describe the decision to a client, as the server wrote them. */
  readonly headers: Readonly<Record<string, string>>;
}

const HEADERS = ["ratelimit-policy", "ratelimit", "retry-after"];

/** Fields as the server writes them in JSON: names with underscores, seconds. */
export type Fields = Readonly<Record<string, unknown>>;

export function decisionOf(fields: Fields, headers?: Headers): Decision {
  const written: Record<string, string> = {};
  for (const name of HEADERS) {
    const value = headers?.get(name);
    if (value != null) written[name] = value;
  }
  const outcome = outcomeOf(fields);
  const limits = Array.isArray(fields["limits"]) ? (fields["limits"] as Fields[]) : [];
  return {
    ...outcome,
    verdict: text(fields["verdict"]) as Verdict | undefined ?? (outcome.allowed ? "allowed" : "denied"),
    source: text(fields["source"]) ?? "rule",
    bound: typeof fields["bound"] === "number" ? fields["bound"] : null,
    outcomes: limits.map(outcomeOf),
    headers: headers ? written : describe(outcome),
  };
}

function outcomeOf(fields: Fields): Outcome {
  const allowed = fields["allowed"] === true || fields["allowed"] === 1;
  const wait = fields["retry_after"];
  return {
    allowed,
    name: text(fields["name"]),
    limit: number(fields["limit"]),
    remaining: number(fields["remaining"]),
    used: number(fields["used"]),
    retryAfter: typeof wait === "number" ? wait : allowed ? 0 : null,
    resetAfter: number(fields["reset_after"]),
    charged: number(fields["charged"]),
  };
}

/** What a decision without a server says. */
export function withoutServer(allowed: boolean, cost: number): Decision {
  return {
    allowed,
    verdict: allowed ? "allowed" : "denied",
    name: undefined,
    limit: 0,
    remaining: 0,
    used: 0,
    retryAfter: allowed ? 0 : 1,
    resetAfter: 0,
    charged: allowed ? cost : 0,
    source: allowed ? "fail_open" : "fail_closed",
    bound: null,
    outcomes: [],
    headers: allowed ? {} : { "retry-after": "1" },
  };
}

/** The same denial some seconds later, from memory. */
export function repeated(denial: Decision, elapsed: number): Decision {
  const retryAfter = denial.retryAfter === null ? null : Math.max(denial.retryAfter - elapsed, 0);
  const headers: Record<string, string> = { ...denial.headers };
  // It says when more is left, which was true of another moment.
  delete headers["ratelimit"];
  if (retryAfter !== null) headers["retry-after"] = String(secondsUp(retryAfter));
  return {
    ...denial,
    retryAfter,
    resetAfter: Math.max(denial.resetAfter - elapsed, 0),
    charged: 0,
    source: "denial_cache",
    headers,
  };
}

/** Whole seconds for a client: rounded up, at least 1. */
export function secondsUp(seconds: number): number {
  return Math.max(Math.ceil(seconds), 1);
}

/** Headers for a decision that came without any, such as one over RESP. */
function describe(outcome: Outcome): Record<string, string> {
  if (outcome.allowed || outcome.retryAfter === null) return {};
  return { "retry-after": String(secondsUp(outcome.retryAfter)) };
}

function number(value: unknown): number {
  return typeof value === "number" ? value : 0;
}

function text(value: unknown): string | undefined {
  return typeof value === "string" ? value : undefined;
}
