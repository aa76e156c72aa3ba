import { after, at, complain, fill, grouped, say } from "./dom.js";
import { Problem, get, tokenGiven } from "./server.js";
import { tabulate } from "./values.js";

// All rows by key, a page at a time.

const again = 3_000; // ms to the next try, at least

let asked = null; // {definition, prefix, limit}: what the pages are of
let pages = [""]; // cursors of the pages up to this one, "" for the first
let next = ""; // of the page after, "" at the end and until it is known
let turning = new AbortController();

/** Begins, or begins anew, for a definition. */
export function showListing(definition) {
  asked = { definition };
  begin();
}

function begin() {
  asked = { definition: asked.definition, prefix: at("list-prefix").value, limit: Number(at("list-limit").value) };
  turn([""]);
}

at("list-form").addEventListener("submit", e => {
  e.preventDefault();
  begin();
});
at("list-limit").addEventListener("change", begin);
at("list-next").addEventListener("click", () => { if (next) turn([...pages, next]); });
at("list-previous").addEventListener("click", () => { if (pages.length > 1) turn(pages.slice(0, -1)); });

/** Shows the page of the last of the cursors. */
async function turn(cursors) {
  turning.abort();
  turning = new AbortController();
  const { signal } = turning;
  const { definition, prefix, limit } = asked;
  pages = cursors;
  next = "";
  const cursor = cursors.at(-1);
  const path = `v1/aggregates?limit=${limit}${prefix ? `&prefix=${encodeURIComponent(prefix)}` : ""}${cursor ? `&cursor=${encodeURIComponent(cursor)}` : ""}`;
  at("list").ariaBusy = "true";
  try {
    const answer = await get(path, signal);
    next = answer.next_cursor ?? "";
    complain(at("list-problem"), null);
    const [columns, rows] = tabulate(definition, answer.rows);
    fill(at("list-table"), columns, rows);
    at("list-table").hidden = rows.length === 0;
    const first = (cursors.length - 1) * limit;
    const none = prefix ? `No key begins with ${JSON.stringify(prefix)}.` : "There are no rows yet.";
    say(at("list-note"), rows.length === 0 ? none : `Rows ${grouped(first + 1)} to ${grouped(first + rows.length)}${next ? "" : ", the last"}.`);
    // Not disabled: a button that has the focus would lose it.
    at("list-next").ariaDisabled = String(!next);
    at("list-previous").ariaDisabled = String(cursors.length === 1);
  } catch (e) {
    if (signal.aborted) return;
    if (!(e instanceof Problem)) throw e;
    complain(at("list-problem"), e);
    if (e.type === "bad_request") return;
    (e.type === "unauthorized" ? tokenGiven() : after(Math.max(again, 1000 * e.retryAfter), signal)).then(() => { if (!signal.aborted) turn(cursors); });
  } finally {
    if (!signal.aborted) at("list").ariaBusy = "false";
  }
}
