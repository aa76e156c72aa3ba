import { at, grouped, say } from "./dom.js";

// Moving lines over the last ten minutes, drawn from what the page has seen.

const span = 600_000; // ms
const hole = 7_000; // ms without a sample: the line is broken there
const width = 600, height = 120; // of the drawing, which is stretched

const svg = (name, attributes) => {
  const e = document.createElementNS("http://www.w3.org/2000/svg", name);
  for (const [k, v] of Object.entries(attributes)) e.setAttribute(k, v);
  return e;
};

/** The next of 1, 2, 5, 10, 20, … that is not below v. */
function above(v) {
  const ten = 10 ** Math.floor(Math.log10(Math.max(v, 1)));
  return [1, 2, 5, 10].map(m => m * ten).find(n => n >= v);
}

export const rounded = v => v >= 100 || Number.isInteger(v) ? grouped(Math.round(v)) : v.toFixed(1);

/** A plot in the figure of an id, whose numbers are of a unit. */
export class Plot {
  constructor(id, unit) {
    this.unit = unit;
    this.samples = []; // {when, value}, oldest first
    const figure = at(id);
    this.now = figure.querySelector(".now");
    this.peak = figure.querySelector(".peak");
    this.drawing = figure.querySelector("svg");
    this.drawing.setAttribute("viewBox", `0 0 ${width} ${height}`);
    this.drawing.setAttribute("preserveAspectRatio", "none");
    for (const y of [0.5, height / 2, height - 0.5]) this.drawing.append(svg("line", { class: "grid", x1: 0, x2: width, y1: y, y2: y }));
    this.area = this.drawing.appendChild(svg("path", { class: "area" }));
    this.line = this.drawing.appendChild(svg("path", { class: "line" }));
  }

  add(when, value) {
    this.samples.push({ when, value });
    while (this.samples[0].when < when - span) this.samples.shift();
    const top = above(Math.max(...this.samples.map(s => s.value)));
    const x = s => (width * (1 - (when - s.when) / span)).toFixed(1);
    const y = s => (height - 1 - (height - 2) * s.value / top).toFixed(1);
    let line = "", area = "", first = null;
    this.samples.forEach((s, i) => {
      const before = this.samples[i - 1];
      if (!before || s.when - before.when > hole) {
        if (first) area += `L${x(before)} ${height}L${x(first)} ${height}Z`;
        first = s;
        line += `M${x(s)} ${y(s)}`;
        area += `M${x(s)} ${y(s)}`;
        return;
      }
      line += `L${x(s)} ${y(s)}`;
      area += `L${x(s)} ${y(s)}`;
    });
    area += `L${x(this.samples.at(-1))} ${height}L${x(first)} ${height}Z`;
    this.line.setAttribute("d", line);
    this.area.setAttribute("d", area);
    const peak = Math.max(...this.samples.map(s => s.value));
    say(this.now, `${rounded(value)} ${this.unit}`);
    say(this.peak, rounded(top));
    this.drawing.setAttribute("aria-label", `Now ${rounded(value)} ${this.unit}, at most ${rounded(peak)} in the last ten minutes`);
  }
}
