import { after, at, clock, complain, fill, make, say, seen } from "./dom.js";
import { Problem, follow, get, tokenGiven } from "./server.js";
import { cell, keyHash } from "./values.js";

// One key, looked up and followed while it changes. The key stands behind the
// page's address, so that a reload and a link show it again.

const announcePause = 10_000; // ms; whoever listens is not told of each change
const pollPause = 2_000; // ms
const shownHere = 200; // members of a list

let keys = []; // names of the key columns
let results = []; // columns of a row
let following = new AbortController();
let shownTexts = null; // the texts of the row that is shown
let announced = 0;

/** Makes the fields for a definition's key. */
export function askForKey(definition) {
  keys = definition.keys;
  results = definition.columns;
  at("key-fields").replaceChildren(...keys.map((name, i) =>
    make("label", {}, make("span", {}, name), make("input", { id: `key-${i}`, autocomplete: "off", autocapitalize: "off", spellcheck: "false", required: true }))));
  fromAddress();
}

at("lookup-form").addEventListener("submit", e => {
  e.preventDefault();
  const hash = keyHash(keys.map((_, i) => at(`key-${i}`).value));
  if (location.hash === hash) fromAddress(); else location.hash = hash;
});
addEventListener("hashchange", () => { if (keys.length > 0) fromAddress(true); });

function fromAddress(moved) {
  if (!location.hash.startsWith("#key=")) return;
  let texts;
  try {
    texts = location.hash.slice(5).split("/").map(decodeURIComponent);
  } catch {
    at("row-none").hidden = true;
    at("row").hidden = false;
    return complain(at("row-problem"), new Problem({ title: "The address of the page holds a key that cannot be read." }));
  }
  keys.forEach((_, i) => { at(`key-${i}`).value = texts[i] ?? ""; });
  following.abort();
  following = new AbortController();
  shownTexts = null;
  announced = 0;
  at("row-table").hidden = true;
  complain(at("row-problem"), null);
  say(at("row-name"), texts.join(" / "));
  say(at("row-absent"), "");
  say(at("row-positions"), "");
  at("row-none").hidden = true;
  at("row").hidden = false;
  if (moved && !at("lookup").contains(document.activeElement)) {
    at("row-name").focus({ preventScroll: true });
    at("lookup").scrollIntoView({ block: "nearest" });
  }
  watch(texts, following.signal);
}

async function watch(texts, signal) {
  for (let failed = 0; !signal.aborted;) {
    // A browser has few connections to one host: tabs that nobody looks at leave theirs to the others.
    await seen(signal);
    const looking = new AbortController();
    const hide = () => { if (document.hidden) looking.abort(); };
    document.addEventListener("visibilitychange", hide);
    const either = AbortSignal.any([signal, looking.signal]);
    try {
      at("row").dataset.state = "asking";
      say(at("row-state"), "asking");
      const heard = answer => {
        failed = 0;
        showAnswer(answer);
      };
      // A browser takes . and .. out of an address, however they are written.
      await (texts.some(t => t === "." || t === "..") ? poll(texts, either, heard)
        : follow(`v1/aggregates/${texts.map(encodeURIComponent).join("/")}/watch`, either, heard));
      if (looking.signal.aborted) continue;
      failed++; // it ended: the member is leaving
    } catch (e) {
      if (signal.aborted) return;
      if (looking.signal.aborted) continue;
      if (!(e instanceof Problem)) throw e;
      failed++;
      complain(at("row-problem"), e);
      if (e.type === "unauthorized") {
        await tokenGiven();
        continue;
      }
      if (e.type === "bad_request") {
        at("row").dataset.state = "ended";
        return say(at("row-state"), "not followed");
      }
    } finally {
      document.removeEventListener("visibilitychange", hide);
    }
    at("row").dataset.state = "broken";
    say(at("row-state"), shownTexts ? "as it was; trying again" : "trying again");
    await after(Math.min(1000 * 2 ** (failed - 1), 10_000), signal);
  }
}

async function poll(texts, signal, heard) {
  const body = JSON.stringify({ keys: [texts.length > 1 ? texts : texts[0]] });
  while (!signal.aborted) {
    heard((await get("v1/aggregates:batchGet", signal, body)).rows[0] ?? { row: null, positions: {} });
    await after(pollPause, signal);
  }
}

function showAnswer(answer) {
  complain(at("row-problem"), null);
  at("row").dataset.state = "live";
  say(at("row-state"), shownTexts ? `live, changed ${clock(new Date())}` : "live");
  say(at("row-absent"), answer.row ? "" : "There is no such key yet. It is shown here as soon as it comes.");
  const positions = Object.entries(answer.positions);
  say(at("row-positions"), positions.length === 0 ? "" : "Holds " + positions.map(([p, n]) => `partition ${p} up to offset ${n}`).join(", ") + ".");
  at("row-table").hidden = !answer.row;
  if (!answer.row) {
    shownTexts = null;
    return;
  }
  fill(at("row-table"), [{ name: "Column" }, { name: "Total" }], results.map(({ name }) => {
    const shown = cell(answer.row[name], 0, shownHere);
    if (answer.capped?.includes(name)) {
      const { draw } = shown;
      shown.draw = () => [...draw(), make("span", { class: "note" }, "capped: the smallest members are kept")];
      shown.sign += " capped";
    }
    return [{ text: name }, shown];
  }));
  const now = [...at("row-table").tBodies[0].rows].map(row => row.cells[1].textContent);
  if (shownTexts) now.forEach((text, i) => { if (text !== shownTexts[i]) flash(at("row-table").tBodies[0].rows[i].cells[1]); });
  shownTexts = now;
  if (Date.now() - announced >= announcePause) {
    announced = Date.now();
    say(at("row-announce"), results.map(({ name }, i) => `${name} ${now[i]}`).join(", "));
  }
}

/** Lets a cell light up once. */
function flash(td) {
  td.classList.remove("changed");
  void td.offsetWidth; // so that the animation starts anew
  td.classList.add("changed");
}
