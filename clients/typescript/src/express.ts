/**
 * Middleware for express.
 *
 * ```ts
 * app.use(rateLimit({ server: "http://127.0.0.1:8080", limit: "100/minute" }));
 * ```
 */

import { Gate, type GateOptions } from "./gate.js";
import type { Decision } from "./decision.js";

/** What is used of a request of express. */
export interface ExpressRequest {
  readonly method: string;
  readonly originalUrl: string;
  readonly headers: Readonly<Record<string, string | string[] | undefined>>;
  readonly socket: { readonly remoteAddress?: string | undefined };
}

/** What is used of a response of express. */
export interface ExpressResponse {
  readonly locals: Record<string, unknown>;
  statusCode: number;
  setHeader(name: string, value: string): unknown;
  end(body: string): unknown;
}

/** Limits requests. Handlers find the decision as `res.locals.rateLimit`. */
export function rateLimit(
  options: GateOptions<ExpressRequest>,
): (req: ExpressRequest, res: ExpressResponse, next: (error?: unknown) => void) => void {
  const gate = new Gate(options);
  return (req, res, next) => {
    gate.admit(headOf(req)).then(({ decision, headers, refusal }) => {
      const described = refusal?.headers ?? headers;
      for (const [name, value] of Object.entries(described)) res.setHeader(name, value);
      if (refusal === undefined) {
        res.locals["rateLimit"] = decision satisfies Decision | undefined;
        next();
        return;
      }
      res.statusCode = refusal.status;
      res.end(refusal.body);
    }).catch(next);
  };
}

export function headOf<R extends Omit<ExpressRequest, "originalUrl"> & { readonly originalUrl: string }>(request: R) {
  return {
    method: request.method,
    path: request.originalUrl.split("?", 1)[0] ?? "/",
    peer: request.socket.remoteAddress,
    header(name: string): string | undefined {
      const value = request.headers[name];
      return Array.isArray(value) ? value.join(", ") : value;
    },
    request,
  };
}
