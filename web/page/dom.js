// What the page is made of. Data becomes text nodes, never markup.

export const at = id => document.getElementById(id);

/** Makes an element; children are nodes or texts. */
export function make(name, attributes = {}, ...children) {
  const e = document.createElement(name);
  for (const [k, v] of Object.entries(attributes)) {
    if (v !== undefined && v !== false) e.setAttribute(k, v === true ? "" : v);
  }
  e.append(...children);
  return e;
}

/** Sets a text where it differs, so that nobody is told of what stays. */
export function say(e, text) {
  if (e.textContent !== text) e.textContent = text;
}

/** Shows a problem in place, or nothing. */
export function complain(e, problem) {
  e.hidden = !problem;
  say(e, problem ? problem.sentence() : "");
}

const drawn = new WeakMap(); // cell -> what it shows

/**
 * Fills a table: columns are {name, number}, rows are arrays of cells, a cell is
 * {text, class, draw, sign}. A cell that shows the same as before is left alone,
 * so that focus and selection stay. draw makes nodes where a text is not
 * enough; sign then says what they show.
 */
export function fill(table, columns, rows) {
  const heads = JSON.stringify(columns);
  if (drawn.get(table) !== heads) {
    drawn.set(table, heads);
    const head = make("tr", { role: "row" });
    for (const c of columns) head.append(make("th", { scope: "col", role: "columnheader", class: c.number ? "n" : undefined }, c.name));
    table.tHead.replaceChildren(head);
    table.tBodies[0].replaceChildren();
  }
  const body = table.tBodies[0];
  while (body.rows.length > rows.length) body.deleteRow(-1);
  rows.forEach((cells, i) => {
    const row = body.rows[i] ?? body.appendChild(make("tr", { role: "row" }));
    cells.forEach((cell, j) => {
      const td = row.cells[j] ?? row.appendChild(make("td", { role: "cell", "data-label": columns[j].name }));
      const sign = `${cell.class ?? ""} ${cell.sign ?? cell.text}`;
      if (drawn.get(td) === sign) return;
      drawn.set(td, sign);
      td.className = `${columns[j].number ? "n " : ""}${cell.class ?? ""}`;
      td.replaceChildren(...(cell.draw ? cell.draw() : [cell.text]));
    });
  });
}

/** Whole digits in groups of three. */
export const grouped = n => String(n).replace(/\B(?=(\d{3})+$)/g, ",");

export function bytes(n) {
  let v = Number(n), unit = 0;
  while (v >= 1024 && unit < 4) { v /= 1024; unit++; }
  return `${unit && v < 100 ? v.toFixed(1) : Math.round(v)} ${["B", "KiB", "MiB", "GiB", "TiB"][unit]}`;
}

export function duration(seconds) {
  const s = Number(seconds);
  if (s < 100) return `${Math.round(s)} s`;
  if (s < 6000) return `${Math.round(s / 60)} min`;
  return s < 172800 ? `${Math.round(s / 3600)} h` : `${Math.round(s / 86400)} days`;
}

export const clock = when => when.toLocaleTimeString("en-GB");

/** Waits, or until the signal. */
export const after = (ms, signal) => new Promise(done => {
  const timer = setTimeout(done, ms);
  signal?.addEventListener("abort", () => { clearTimeout(timer); done(); }, { once: true });
});

/** Waits until the page is looked at, or until the signal. */
export async function seen(signal) {
  while (document.hidden && !signal.aborted) {
    await new Promise(done => {
      document.addEventListener("visibilitychange", done, { once: true });
      signal.addEventListener("abort", done, { once: true });
    });
  }
}
