/**
 * Errors. A denial is never an error, and an error is never a decision.
 *
 * `kind` is `request` (the call is not valid), `unavailable` (nothing was charged), `lost` (the call
 * may have been charged) or `store` (the server says that its store did not answer).
 */
export class TollgateError extends Error {
  override readonly name = "TollgateError";

  constructor(
    message: string,
    readonly kind: "request" | "unavailable" | "lost" | "store",
    options?: ErrorOptions,
  ) {
    super(message, options);
  }

  /** Whether the same call may succeed later. */
  get isTransient(): boolean {
    return this.kind !== "request";
  }
}

export function refused(message: string): TollgateError {
  return new TollgateError(message, "request");
}
