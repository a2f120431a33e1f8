/**
 * Middleware for hono.
 *
 * ```ts
 * app.use(rateLimit({ server: "http://127.0.0.1:8080", limit: "100/minute", peer }));
 * ```
 */

import { Gate, type GateOptions } from "./gate.js";

/** What is used of a context of hono. */
export interface HonoContext {
  readonly req: {
    readonly method: string;
    readonly path: string;
    header(name: string): string | undefined;
  };
  readonly res: Response;
  set(name: never, value: never): void;
}

export interface HonoOptions<C> extends GateOptions<C> {
  /**
   * The address of the other end of the connection, which hono does not know. On Node:
   * `(c) => getConnInfo(c).remote.address`, of `@hono/node-server/conninfo`.
   */
  readonly peer?: (context: C) => string | undefined;
}

/** Limits requests. Handlers find the decision as `c.get("rateLimit")`. */
export function rateLimit<C extends HonoContext>(
  options: HonoOptions<C>,
): (context: C, next: () => Promise<void>) => Promise<Response | undefined> {
  const gate = new Gate<C>(options);
  return async (context, next) => {
    const { req } = context;
    const head = {
      method: req.method,
      path: req.path,
      peer: options.peer?.(context),
      header: (name: string) => req.header(name),
      request: context,
    };
    const { decision, headers, refusal } = await gate.admit(head);
    if (refusal !== undefined) {
      return new Response(refusal.body, { status: refusal.status, headers: refusal.headers });
    }
    context.set("rateLimit" as never, decision as never);
    await next();
    for (const [name, value] of Object.entries(headers)) context.res.headers.set(name, value);
    return undefined;
  };
}
