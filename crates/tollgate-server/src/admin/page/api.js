// The API of the server, the login, and the stream of figures.

import { announce } from "./dom.js";

/** A request that failed, with the status and what the server says. */
export class Failure extends Error {
  constructor(status, message) {
    super(message);
    this.status = status;
  }
}

let onLogout = () => {};

/** Asks the API: by POST if there is a body. */
export async function api(path, body, method = body === undefined ? "GET" : "POST") {
  const options = { method, credentials: "same-origin", cache: "no-store" };
  if (body !== undefined) {
    options.headers = { "content-type": "application/json" };
    options.body = JSON.stringify(body);
  }
  let response;
  try {
    response = await fetch(`/api/v1/${path}`, options);
  } catch {
    throw new Failure(0, "the server does not answer");
  }
  const answer = await response.json().catch(() => ({}));
  if (response.ok) return answer;
  if (response.status === 401 && path !== "session") onLogout();
  throw new Failure(response.status, answer.detail ?? `the server answered ${response.status}`);
}

/** Called when the server asks for a token again. */
export function whenLoggedOut(act) {
  onLogout = act;
}

/** The newest overview, with the counts of the last seconds as a list. */
export const state = { overview: null, newest: 0, counts: [], session: null };

const readers = new Set();

/** Calls a function with the newest state now and every second. Returns how to stop it. */
export function follow(read) {
  readers.add(read);
  if (state.overview) read(state);
  return () => readers.delete(read);
}

/** The verdicts, the lowest in a chart first, and errors. */
export const VERDICTS = ["allowed", "exempt", "shadowed", "denied", "banned", "blocked", "errors"];

function take(overview) {
  state.overview = overview;
  for (const read of readers) read(state);
}

async function load() {
  const overview = await api("overview");
  const { history } = overview;
  state.newest = history.newest;
  state.counts = history.allowed.map((_, index) =>
    Object.fromEntries(VERDICTS.map((name) => [name, history[name][index]])));
  take(overview);
}

let source = null;
let isStopped = true;

/** What the connection is: live, lost, or paused while the page is hidden. */
let onState = () => {};
export function whenConnected(tell) {
  onState = tell;
}

async function open() {
  if (source || isStopped || document.hidden) return;
  const own = new EventSource("/api/v1/stream");
  source = own;
  try {
    await load();
  } catch (failure) {
    if (failure.status === 401) return;
  }
  own.addEventListener("second", (event) => {
    onState("live");
    const overview = JSON.parse(event.data);
    const { second } = overview;
    if (second.at > state.newest + 1 && state.newest) {
      load().catch(() => {});
      return;
    }
    if (second.at > state.newest) {
      state.newest = second.at;
      state.counts.push(second);
      if (state.counts.length > 900) state.counts.shift();
    }
    take(overview);
  });
  own.addEventListener("error", () => {
    if (source !== own) return;
    onState("lost");
    // The browser connects again by itself, unless the server refused.
    if (own.readyState === EventSource.CLOSED) {
      source = null;
      api("overview").catch(() => {});
      setTimeout(open, 2000);
    }
  });
}

function close() {
  source?.close();
  source = null;
}

export function start() {
  isStopped = false;
  open();
}

export function stop() {
  isStopped = true;
  close();
}

document.addEventListener("visibilitychange", () => {
  if (document.hidden) {
    close();
    onState("paused");
  } else {
    open();
  }
});

/**
 * Asks for something now and again and again, while the page is shown. `show` gets the answer,
 * `fail` the failure. Returns how to stop it.
 */
export function poll(ask, seconds, show, fail) {
  let timer = 0;
  let isOver = false;
  let hasFailed = false;
  const turn = async () => {
    clearTimeout(timer);
    if (!document.hidden) {
      try {
        const answer = await ask();
        if (isOver) return;
        hasFailed = false;
        show(answer);
      } catch (failure) {
        if (isOver) return;
        if (!hasFailed) announce(failure.message);
        hasFailed = true;
        fail(failure);
      }
    }
    timer = setTimeout(turn, seconds * 1000);
  };
  turn();
  const end = () => {
    isOver = true;
    clearTimeout(timer);
  };
  return { end, again: turn };
}
