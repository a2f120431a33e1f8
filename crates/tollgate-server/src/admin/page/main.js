// The frame of the dashboard: login, navigation, theme.

import { api, start, state, stop, whenConnected, whenLoggedOut } from "./api.js";
import { announce, put, say } from "./dom.js";
import { keyPage, page as keys } from "./keys.js";
import { page as overview } from "./overview.js";
import { page as playground } from "./playground.js";
import { page as rules } from "./rules.js";
import { page as store } from "./store.js";

const PAGES = { overview, rules, keys, key: keyPage, store, playground };
const TITLES = { overview: "Overview", rules: "Rules", keys: "Keys", key: "Key", store: "Store and nodes", playground: "Playground" };
const find = (id) => document.getElementById(id);

let shown = null;

function leave() {
  shown?.end();
  shown = null;
  find("page").replaceChildren();
}

function route() {
  if (!state.session?.admitted) return;
  const [, name = "overview", argument = ""] = location.hash.split("/");
  const known = name in PAGES ? name : "overview";
  leave();
  shown = PAGES[known](argument);
  find("page").replaceChildren(shown.element);
  document.title = `${TITLES[known]} · tollgate`;
  for (const link of find("pages").children) {
    const isHere = link.hash === `#/${known}` || (known === "key" && link.hash === "#/keys");
    if (isHere) link.setAttribute("aria-current", "page");
    else link.removeAttribute("aria-current");
  }
  window.scrollTo(0, 0);
}

function showLogin() {
  stop();
  leave();
  state.session = null;
  find("login").hidden = false;
  find("pages").hidden = true;
  find("logout").hidden = true;
  say(find("who"), "");
  say(find("live"), "");
  document.title = "Log in · tollgate";
  find("token").focus();
}

function enter(session) {
  state.session = session;
  find("login").hidden = true;
  find("pages").hidden = false;
  find("logout").hidden = !session.token_needed;
  say(find("who"), session.token_needed ? `${session.name} (${session.scope})` : "");
  start();
  route();
}

find("login").addEventListener("submit", async (event) => {
  event.preventDefault();
  const field = find("token");
  say(find("login-error"), "");
  try {
    const session = await api("session", { token: field.value.trim() });
    field.value = "";
    enter(session);
    find("main").focus();
  } catch (failure) {
    say(find("login-error"), failure.status === 401 ? "The server does not know this token." : failure.message);
    field.select();
  }
});

find("logout").addEventListener("click", async () => {
  await api("session", undefined, "DELETE").catch(() => {});
  showLogin();
});

const STATES = { live: ["live", "good"], lost: ["connection lost", "bad"], paused: ["paused", "warn"] };
whenConnected((now) => {
  const [text, kind] = STATES[now];
  put(find("live"), "class", `pill ${kind}`);
  say(find("live"), text);
});
whenLoggedOut(() => {
  if (!state.session) return;
  showLogin();
  announce("The session has ended.");
});

const THEMES = { auto: "Theme: auto", light: "Theme: light", dark: "Theme: dark" };
function theme(chosen) {
  if (chosen === "auto") delete document.documentElement.dataset.theme;
  else document.documentElement.dataset.theme = chosen;
  say(find("theme"), THEMES[chosen]);
}
find("theme").addEventListener("click", () => {
  const names = Object.keys(THEMES);
  const now = document.documentElement.dataset.theme ?? "auto";
  const next = names[(names.indexOf(now) + 1) % names.length];
  theme(next);
  try {
    localStorage.setItem("tollgate-theme", next);
  } catch { /* Storage may be turned off. */ }
});
theme(document.documentElement.dataset.theme ?? "auto");

document.querySelector(".skip").addEventListener("click", (event) => {
  event.preventDefault();
  find("main").focus();
});
addEventListener("hashchange", () => {
  route();
  find("main").focus({ preventScroll: true });
});

try {
  const session = await api("session");
  if (session.admitted) enter(session);
  else showLogin();
} catch (failure) {
  showLogin();
  say(find("login-error"), failure.message);
}
