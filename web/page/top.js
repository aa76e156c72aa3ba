import { after, at, clock, complain, fill, make, say, seen } from "./dom.js";
import { Problem, get, tokenGiven } from "./server.js";
import { tabulate } from "./values.js";

// The first rows by one result. The service reads every total for it, so the
// page asks the less often the longer an answer takes, and not at all while
// nobody looks.

const restPause = 3_000; // ms, at least
const share = 0.05; // of the time, at most, that the service works for this

let topping = new AbortController();

/** Begins, or begins anew, for a definition. */
export function showTop(definition) {
  const select = at("top-order");
  const names = definition.columns.map(c => c.name);
  const sum = definition.columns.find(c => c.expression.includes("sum("));
  select.replaceChildren(...names.map(n => make("option", { value: n }, n)));
  select.value = (sum ?? definition.columns.find(c => !definition.keys.includes(c.name)) ?? definition.columns[0]).name;
  const begin = () => {
    topping.abort();
    topping = new AbortController();
    keepAsking(definition, topping.signal);
  };
  for (const id of ["top-order", "top-direction", "top-limit"]) at(id).onchange = begin;
  begin();
}

async function keepAsking(definition, signal) {
  const order = at("top-direction").value + at("top-order").value;
  const path = `v1/aggregates?order=${encodeURIComponent(order)}&limit=${at("top-limit").value}`;
  while (!signal.aborted) {
    const began = performance.now();
    let wait = restPause;
    try {
      const answer = await get(path, signal);
      wait = Math.max(restPause, (performance.now() - began) / share);
      complain(at("top-problem"), null);
      const [columns, rows] = tabulate(definition, answer.rows);
      fill(at("top-table"), columns, rows);
      at("top-table").hidden = rows.length === 0;
      say(at("top-note"), rows.length === 0 ? "There are no rows yet." : `As of ${clock(new Date())}.`);
    } catch (e) {
      if (signal.aborted) return;
      if (!(e instanceof Problem)) throw e;
      complain(at("top-problem"), e);
      if (e.type === "unauthorized") {
        await tokenGiven();
        continue;
      }
      wait = Math.max(restPause, 1000 * e.retryAfter);
    }
    await after(wait, signal);
    await seen(signal);
  }
}
