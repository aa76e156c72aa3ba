import { parseExact } from "./json.js";
import { at, complain } from "./dom.js";

// The member that the page came from, over its public interface. Addresses are
// relative, so that the page works below any path of a proxy.

const answerTime = 20_000; // ms
const silence = 45_000; // ms; a watch has a comment every 15 s
const tokenName = "tidemark-token";

/** What went wrong, as the service says it. */
export class Problem extends Error {
  constructor({ type, title, detail }, retryAfter = 0) {
    super(title);
    Object.assign(this, { type, title, detail, retryAfter });
  }
  sentence() { return this.detail ? `${this.title} ${this.detail[0].toUpperCase()}${this.detail.slice(1)}${/[.!?]$/.test(this.detail) ? "" : "."}` : this.title; }
}

let token = "";
try { token = sessionStorage.getItem(tokenName) ?? ""; } catch { /* the browser keeps nothing: it is asked for again */ }
const waiting = []; // who goes on when there is a token

/** Resolves once a token was given. */
export const tokenGiven = () => new Promise(go => waiting.push(go));

function keepToken(text) {
  token = text;
  try {
    if (text) sessionStorage.setItem(tokenName, text); else sessionStorage.removeItem(tokenName);
  } catch { /* as above */ }
}

/** Asks for a token, in place of everything else. */
function askToken(problem) {
  if (at("login").hidden) {
    at("login").hidden = false;
    at("content").hidden = true;
    at("token").focus();
  }
  complain(at("login-problem"), token ? problem : null);
}

at("login-form").addEventListener("submit", e => {
  e.preventDefault();
  keepToken(at("token").value.trim());
  at("token").value = "";
  for (const go of waiting.splice(0)) go();
});
at("forget").addEventListener("click", () => {
  keepToken("");
  location.reload();
});

async function ask(path, signal, body) {
  const headers = token ? { Authorization: `Bearer ${token}` } : {};
  const options = { headers, signal, cache: "no-store", credentials: "same-origin", redirect: "error" };
  if (body !== undefined) Object.assign(options, { method: "POST", body, headers: { ...headers, "Content-Type": "application/json" } });
  let response;
  try {
    response = await fetch(new URL(path, document.baseURI), options);
  } catch (e) {
    if (signal.aborted && signal.reason?.name === "AbortError") throw signal.reason;
    throw new Problem({ type: "no_answer", title: "This member does not answer." });
  }
  if (response.ok) return response;
  const text = await response.text().catch(() => "");
  let told = {};
  try { told = JSON.parse(text); } catch { /* a proxy's answer */ }
  const problem = new Problem(
    told.title ? told : { type: "no_answer", title: "Something between here and the service answers in its place.", detail: `It says ${response.status} ${response.statusText}`.trim() },
    Number(response.headers.get("Retry-After")) || 0);
  if (response.status === 401) askToken(problem);
  throw problem;
}

/** The answer to a GET, or to a POST of a body; throws a Problem. */
export async function get(path, signal, body) {
  const limits = [AbortSignal.timeout(answerTime)];
  if (signal) limits.push(signal);
  const response = await ask(path, AbortSignal.any(limits), body);
  let text;
  try {
    text = await response.text();
  } catch (e) {
    if (signal?.aborted) throw signal.reason;
    throw new Problem({ type: "no_answer", title: "This member does not answer." });
  }
  if (!at("login").hidden) {
    at("login").hidden = true;
    at("content").hidden = false;
  }
  at("forget").hidden = !token;
  return parseExact(text);
}

/** Follows server-sent events until they end; told gets the data of each. Throws a Problem where there are none. */
export async function follow(path, signal, told) {
  const quiet = new AbortController();
  let timer;
  const heard = () => {
    clearTimeout(timer);
    timer = setTimeout(() => quiet.abort(new DOMException("nothing was heard", "TimeoutError")), silence);
  };
  heard();
  try {
    const response = await ask(path, AbortSignal.any([signal, quiet.signal]));
    const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
    let rest = "";
    for (;;) {
      const { done, value } = await reader.read();
      if (done) return;
      heard();
      const events = (rest + value).split("\n\n");
      rest = events.pop();
      for (const event of events) {
        const data = event.split("\n").filter(line => line.startsWith("data:")).map(line => line.slice(5)).join("\n");
        if (data) told(parseExact(data));
      }
    }
  } catch (e) {
    if (signal.aborted) throw signal.reason;
    if (e instanceof Problem) throw e;
    throw new Problem({ type: "no_answer", title: "The connection ended." });
  } finally {
    clearTimeout(timer);
  }
}
