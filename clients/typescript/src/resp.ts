/** Questions over RESP, through a client of the packages `redis` or `ioredis`. */

import { decisionOf, type Decision, type Fields } from "./decision.js";
import { TollgateError, refused } from "./errors.js";
import { message } from "./http.js";
import type { Answer, Question, Transport } from "./question.js";
import { together } from "./together.js";

/** What is used of a client of `redis`. */
export interface RedisClient {
  sendCommand(command: string[]): Promise<unknown>;
}

/** What is used of a client of `ioredis`. */
export interface IoredisClient {
  call(command: string, ...args: string[]): Promise<unknown>;
}

/**
 * Asks the RESP port of a server through a client that is connected to it. Set
 * `maxRetriesPerRequest: 0` on a client of `ioredis`: a hit that is sent again charges again.
 */
export function resp(client: RedisClient | IoredisClient): Transport {
  const send = (command: string[]): Promise<unknown> => {
    if ("call" in client && typeof client.call === "function") {
      const [name = "", ...args] = command;
      return client.call(name, ...args);
    }
    return (client as RedisClient).sendCommand(command);
  };
  return {
    async ask(question, signal) {
      const reply = await within(send(commandOf(question)), signal);
      return answerOf(question, reply);
    },
  };
}

function commandOf({ operation, items, namespace }: Question): string[] {
  const tail = namespace === undefined ? [] : ["NAMESPACE", namespace];
  if (operation === "all") {
    const each = items.flatMap((item) => [item.limit, keyOf(item.key), String(item.cost ?? 1)]);
    return ["TG.ALL", String(items.length), ...each, ...tail];
  }
  const [item] = items;
  if (item === undefined) throw refused("0 items: a question has one");
  const command = [`TG.${operation.toUpperCase()}`, item.limit, keyOf(item.key)];
  if (operation === "set") command.push(String(item.cost ?? 0));
  else if (item.cost !== undefined) command.push("COST", String(item.cost));
  return [...command, ...tail];
}

function keyOf(key: string | readonly string[]): string {
  if (typeof key === "string") return key;
  throw refused("a key of several parts: RESP has only keys of one part; use http");
}

async function within<T>(reply: Promise<T>, signal: AbortSignal): Promise<T> {
  const aborted = new Promise<never>((_, reject) => {
    const abort = () => reject(new TollgateError("no answer from the server in time", "lost"));
    if (signal.aborted) abort();
    signal.addEventListener("abort", abort, { once: true });
  });
  return await Promise.race([reply, aborted]).catch((error: unknown) => {
    if (error instanceof TollgateError) throw error;
    throw errorOf(message(error), error);
  });
}

/** The kind of an error that the server or the connection reports. */
function errorOf(text: string, cause: unknown): TollgateError {
  if (/^(ERR|UNKNOWN|NOAUTH|WRONGPASS)\b/.test(text)) {
    return new TollgateError(text.replace(/^\w+ /, ""), "request", { cause });
  }
  if (/^STORE\b/.test(text)) return new TollgateError(text, "store", { cause });
  return new TollgateError(`no answer from the server: ${text}`, "lost", { cause });
}

function answerOf(question: Question, reply: unknown): Answer {
  switch (question.operation) {
    case "usage":
      return Number(reply);
    case "reset":
      return Number(reply) === 1;
    case "all":
      return together((fieldsOf(reply)["items"] as unknown[]).map(decision));
    default:
      return decision(reply);
  }
}

function decision(reply: unknown): Decision {
  const fields = numbered(fieldsOf(reply));
  const limits = fields["limits"];
  const each = Array.isArray(limits) ? limits.map((one) => numbered(fieldsOf(one))) : [];
  return decisionOf({ ...fields, limits: each });
}

/** A map, or in the first version of the protocol a list of names and values. */
function fieldsOf(reply: unknown): Record<string, unknown> {
  if (reply instanceof Map) return Object.fromEntries(reply) as Record<string, unknown>;
  if (!Array.isArray(reply)) return { ...(reply as object) };
  const fields: Record<string, unknown> = {};
  for (let index = 0; index + 1 < reply.length; index += 2) {
    fields[String(reply[index])] = reply[index + 1];
  }
  return fields;
}

/** Microseconds become seconds, and -1 a missing number. */
function numbered(fields: Record<string, unknown>): Fields {
  const named: Record<string, unknown> = {};
  for (const [name, value] of Object.entries(fields)) {
    const isNumber = typeof value === "number" || typeof value === "bigint";
    const number = isNumber ? Number(value) : undefined;
    const missing = number === -1 ? null : number;
    const isTime = name === "retry_after" || name === "reset_after";
    named[name] = number === undefined ? value : isTime && missing !== null ? number / 1e6 : missing;
  }
  return named;
}
