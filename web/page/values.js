import { Exact } from "./json.js";
import { make } from "./dom.js";

// Values of a row, as the page shows them: digits as they were sent.

const shownMembers = 8; // of a list in a table

const fraction = v => v.text.includes(".") ? v.text.length - v.text.indexOf(".") - 1 : 0;

/** A number, filled up behind so that the points of a column stand below each other. The filling is no text. */
function number(v, places) {
  const have = fraction(v);
  const pad = places === 0 || have === places ? "" : (have === 0 ? "\u2008" : "") + "\u2007".repeat(places - have);
  return make("span", { class: "digits", "data-pad": pad }, v.text);
}

// In a list a text has its quotes: 47 and "47" are two members.
const member = v => v instanceof Exact ? v.text : JSON.stringify(v);

function list(values, most) {
  if (values.length === 0) return [make("span", { class: "none" }, "empty")];
  const ul = make("ul", { class: "members" });
  for (const v of values.slice(0, most)) ul.append(make("li", {}, member(v)));
  if (values.length > most) ul.append(make("li", { class: "more" }, `and ${values.length - most} more`));
  return [ul];
}

/** The cell of a value. */
export function cell(v, places = 0, most = shownMembers) {
  if (v === null || v === undefined) return { text: "null", class: "none" };
  if (v instanceof Exact) return { sign: `${v.text} ${places}`, draw: () => [number(v, places)] };
  if (Array.isArray(v)) return { sign: v.map(member).join(" "), draw: () => list(v, most) };
  return { text: String(v) };
}

export const keyTexts = key => Array.isArray(key) ? key : [String(key)];
export const keyHash = texts => `#key=${texts.map(encodeURIComponent).join("/")}`;

/**
 * Columns and rows of a table of answers. Key columns lead to the watch of
 * their key.
 */
export function tabulate(definition, answers) {
  const names = definition.columns.map(c => c.name);
  const columns = names.map(name => {
    const values = answers.map(a => a.row[name]).filter(v => v !== null);
    const isNumber = values.length > 0 && values.every(v => v instanceof Exact);
    return { name, number: isNumber, places: isNumber ? Math.max(...values.map(fraction)) : 0 };
  });
  const rows = answers.map(a => columns.map((c, i) => {
    const shown = cell(a.row[c.name], c.places);
    if (definition.keys[0] === c.name) {
      const href = keyHash(keyTexts(a.key));
      return { sign: `${href} ${c.places}`, draw: () => [make("a", { href }, ...(shown.draw ? shown.draw() : [shown.text]))] };
    }
    if (a.capped?.includes(names[i]) && shown.draw) {
      return { sign: `capped ${shown.sign}`, draw: () => [...shown.draw(), make("span", { class: "note" }, " capped")] };
    }
    return shown;
  }));
  return [columns.map(({ name, number }) => ({ name, number })), rows];
}
