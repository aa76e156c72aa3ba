// JSON whose numbers keep every digit: JSON.parse alone would take them through
// a double.

/** A number as it was written. */
export class Exact {
  constructor(text) { this.text = text; }
  toString() { return this.text; }
  /** The nearest double, for plots and bars alone. */
  valueOf() { return Number(this.text); }
}

/**
 * Parses JSON. Numbers are Exact, objects have no prototype, so that a column
 * may have any name. Throws what JSON.parse throws.
 */
export function parseExact(text) {
  // Each text gets a letter in front, each number becomes a text with another.
  const marked = text.replace(/"(?:[^"\\]|\\.)*"|-?\d[\d.eE+-]*/g, m => m[0] === '"' ? '"s' + m.slice(1) : `"n${m}"`);
  return JSON.parse(marked, (_, v) => {
    if (typeof v === "string") return v[0] === "n" ? new Exact(v.slice(1)) : v.slice(1);
    if (v === null || typeof v !== "object" || Array.isArray(v) || v instanceof Exact) return v;
    const named = Object.create(null);
    for (const name of Object.keys(v)) named[name.slice(1)] = v[name];
    return named;
  });
}
