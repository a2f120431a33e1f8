/** The decision on several items. */

import type { Decision } from "./decision.js";
import { refused } from "./errors.js";

/** Shows the item that denies with the longest wait, else the one with the least remaining. */
export function together(answers: readonly Decision[]): Decision {
  const wait = (one: Decision) => one.retryAfter ?? Infinity;
  const denying = answers.filter((one) => !one.allowed);
  const better = (a: Decision, b: Decision) =>
    denying.length > 0 ? wait(b) > wait(a) : b.remaining < a.remaining;
  const [first, ...rest] = denying.length > 0 ? denying : answers;
  if (first === undefined) throw refused("0 items: an all-or-nothing hit needs at least one");
  const shown = rest.reduce((best, one) => (better(best, one) ? one : best), first);
  return { ...shown, outcomes: answers };
}
