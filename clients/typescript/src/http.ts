/** Questions over HTTP, through `fetch`. */

import { decisionOf, type Fields } from "./decision.js";
import { TollgateError, refused } from "./errors.js";
import type { Answer, Item, Question, Transport } from "./question.js";
import { together } from "./together.js";

export interface HttpOptions {
  /** Sent as a bearer token. */
  readonly token?: string | undefined;
  /** Used instead of the global `fetch`. */
  readonly fetch?: typeof globalThis.fetch | undefined;
}

/** Asks the HTTP port of a server, such as `http://127.0.0.1:8080`. */
export function http(url: string | URL, options: HttpOptions = {}): Transport {
  const base = String(url).replace(/\/+$/, "");
  if (!/^https?:\/\//.test(base)) throw refused(`url ${base}: must begin with http:// or https://`);
  const headers: Record<string, string> = { "content-type": "application/json" };
  if (options.token !== undefined) headers["authorization"] = `Bearer ${options.token}`;
  return {
    async ask(question, signal) {
      const send = options.fetch ?? globalThis.fetch;
      const init = { method: "POST", headers, body: bodyOf(question), signal, redirect: "error" } as const;
      const response = await send(`${base}/v1/${question.operation}`, init).catch((error: unknown) => {
        throw failure(error, signal);
      });
      const body = await response.text().catch((error: unknown) => {
        throw new TollgateError(`no answer from the server: ${message(error)}`, "lost", { cause: error });
      });
      return answerOf(question, response, body);
    },
  };
}

function bodyOf({ operation, items, namespace }: Question): string {
  const fields = (item: Item) => ({ ...item, namespace });
  if (operation === "all") return JSON.stringify({ items: items.map(fields) });
  const [item] = items;
  if (item === undefined) throw refused("0 items: a question has one");
  return JSON.stringify(fields(item));
}

function answerOf(question: Question, response: Response, body: string): Answer {
  const fields = parsed(body);
  if ((response.status !== 200 && response.status !== 429) || "title" in fields) {
    const detail = String(fields["detail"] ?? fields["title"] ?? response.status);
    if (response.status < 500) throw refused(detail);
    throw new TollgateError(`error of the server: ${detail}`, "store");
  }
  switch (question.operation) {
    case "usage":
      return Number(fields["used"]);
    case "reset":
      return fields["reset"] === true;
    case "all":
      return together((fields["answers"] as Fields[]).map((one) => decisionOf(one)));
    default:
      return decisionOf(fields, response.headers);
  }
}

function parsed(body: string): Fields {
  try {
    return JSON.parse(body) as Fields;
  } catch (error) {
    throw new TollgateError(`the server answered with what is not JSON: ${message(error)}`, "store", {
      cause: error,
    });
  }
}

/** Whether a failed request may have been executed: not if there was no connection. */
function failure(error: unknown, signal: AbortSignal): TollgateError {
  const cause = (error as { cause?: { code?: string } }).cause;
  const refusedToConnect = ["ECONNREFUSED", "ENOTFOUND", "EHOSTUNREACH", "ENETUNREACH"];
  if (!signal.aborted && cause?.code !== undefined && refusedToConnect.includes(cause.code)) {
    return new TollgateError(`server not available: ${cause.code}`, "unavailable", { cause: error });
  }
  return new TollgateError(`no answer from the server: ${message(error)}`, "lost", { cause: error });
}

export function message(error: unknown): string {
  return error instanceof Error ? error.message : String(error);
}
