/**
 * A plugin for fastify.
 *
 * ```ts
 * await app.register(rateLimit, { server: "http://127.0.0.1:8080", limit: "100/minute" });
 * ```
 */

import type { Decision } from "./decision.js";
import { headOf } from "./express.js";
import { Gate, type GateOptions } from "./gate.js";

/** What is used of a request of fastify. */
export interface FastifyRequest {
  readonly method: string;
  readonly originalUrl: string;
  readonly headers: Readonly<Record<string, string | string[] | undefined>>;
  readonly socket: { readonly remoteAddress?: string | undefined };
  rateLimit?: Decision | undefined;
}

/** What is used of a reply of fastify. */
export interface FastifyReply {
  header(name: string, value: string): unknown;
  code(status: number): { send(body: string): unknown };
}

/** What is used of an instance of fastify. */
export interface FastifyInstance {
  decorateRequest(name: string, value: unknown): unknown;
  addHook(
    name: "onRequest",
    hook: (request: FastifyRequest, reply: FastifyReply) => Promise<unknown>,
  ): unknown;
}

/** Limits all routes of an instance. Handlers find the decision as `request.rateLimit`. */
export async function rateLimit(
  instance: FastifyInstance,
  options: GateOptions<FastifyRequest>,
): Promise<void> {
  const gate = new Gate(options);
  instance.decorateRequest("rateLimit", undefined);
  instance.addHook("onRequest", async (request, reply) => {
    const { decision, headers, refusal } = await gate.admit(headOf(request));
    request.rateLimit = decision;
    for (const [name, value] of Object.entries(refusal?.headers ?? headers)) reply.header(name, value);
    return refusal === undefined ? undefined : reply.code(refusal.status).send(refusal.body);
  });
}

// Without this, fastify would limit only the routes that are registered inside of the plugin.
Object.assign(rateLimit, {
  [Symbol.for("skip-override")]: true,
  [Symbol.for("fastify.display-name")]: "tollgate",
});
