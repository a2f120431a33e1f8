/** What a client remembers: denials, and failures of its server. */

import { repeated, type Decision } from "./decision.js";
import type { Answer, Item, Question } from "./question.js";

/** The longest time for which a denial is remembered: another client may give units back. */
const LONGEST = 2;

const FAILURES = 3;
const PAUSES = { first: 0.1, longest: 5 };

/** Seconds of a clock that never goes back. */
export const seconds = (): number => performance.now() / 1000;

interface Denial {
  readonly since: number;
  readonly until: number;
  readonly cost: number;
  readonly decision: Decision;
}

/**
 * Denials that are repeated without asking. A denial of a limit that counts every attempt is never
 * remembered. The text of a limit says whether it does; the name of a rule does not.
 */
export class Denials {
  readonly #known = new Map<string, Denial>();

  constructor(
    readonly most: number,
    readonly ofRules: boolean,
  ) {}

  recall(question: Question): Decision | undefined {
    const [item] = question.items;
    if (question.operation !== "hit" || item === undefined) return undefined;
    const denial = this.#known.get(nameOf(item));
    const now = seconds();
    if (denial === undefined || now >= denial.until || (item.cost ?? 1) < denial.cost) return undefined;
    return repeated(denial.decision, now - denial.since);
  }

  learn(question: Question, answer: Answer): void {
    this.forget(question);
    const [item] = question.items;
    if (question.operation !== "hit" || item === undefined || typeof answer !== "object") return;
    const { verdict, source, retryAfter } = answer;
    if (verdict !== "denied" || source !== "store" || retryAfter === null) return;
    if (this.most === 0 || !this.#mayBeRepeated(item.limit)) return;
    for (const oldest of this.#known.keys()) {
      if (this.#known.size < this.most) break;
      this.#known.delete(oldest);
    }
    const since = seconds();
    const until = since + Math.min(retryAfter, LONGEST);
    this.#known.set(nameOf(item), { since, until, cost: item.cost ?? 1, decision: answer });
  }

  forget(question: Question): void {
    for (const item of question.items) this.#known.delete(nameOf(item));
  }

  #mayBeRepeated(limit: string): boolean {
    return /^\s*\d/.test(limit) ? !/elastic|charge.denied/i.test(limit) : this.ofRules;
  }
}

function nameOf(item: Item): string {
  return JSON.stringify([item.limit, item.key]);
}

/** Leaves a server alone that failed several times in a row. */
export class Breaker {
  #failures = 0;
  #until = 0;

  get failures(): number {
    return this.#failures;
  }

  /** Seconds for which the server is left alone. */
  pause(): number {
    return this.#failures >= FAILURES ? this.#until - seconds() : 0;
  }

  failed(): void {
    this.#failures += 1;
    if (this.#failures < FAILURES) return;
    const pause = PAUSES.first * 2 ** Math.min(this.#failures - FAILURES, 10);
    this.#until = seconds() + Math.min(pause, PAUSES.longest);
  }

  succeeded(): void {
    this.#failures = 0;
  }
}
