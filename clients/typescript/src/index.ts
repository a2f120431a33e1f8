/** A client of tollgate, the rate limiter. */

export { clientAddress, type ClientAddressOptions } from "./address.js";
export { Client, type ClientOptions, type Hit, type Limiter } from "./client.js";
export type { Decision, Outcome, Verdict } from "./decision.js";
export { TollgateError } from "./errors.js";
export { Gate, type Admission, type GateOptions, type Head, type Refusal } from "./gate.js";
export { http, type HttpOptions } from "./http.js";
export { askedWait, paced, type PaceOptions } from "./pace.js";
export type { Answer, Item, Key, Operation, Question, Transport } from "./question.js";
export { resp, type IoredisClient, type RedisClient } from "./resp.js";
