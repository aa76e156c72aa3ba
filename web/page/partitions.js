import { at, bytes, duration, fill, grouped, make, say } from "./dom.js";
import { Plot, rounded } from "./plot.js";

// The partitions of the topic, and how fast this member folds those that it has.

const partitionColumns = [
  { name: "Partition" }, { name: "Member" }, { name: "State" }, { name: "Position", number: true }, { name: "Lag", number: true },
  { name: "Folded", number: true }, { name: "Bad", number: true }, { name: "Keys", number: true }, { name: "Snapshot" },
];
const colours = { live: "good", restoring: "busy", bootstrapping: "busy", catching_up: "busy", gap: "bad", paused: "bad" };

const rate = new Plot("rate", "records/s");
const lag = new Plot("lag", "records");
let last = null; // {when, consumed: partition -> records} of the status before

const consumed = p => Object.values(p.counts).reduce((sum, n) => sum + Number(n), 0);

/** Takes the figures of a status into the plots. */
export function plot(status) {
  const when = Date.now();
  const now = new Map(status.partitions.map(p => [`${p.partition} ${p.epoch}`, consumed(p)]));
  lag.add(when, status.partitions.reduce((sum, p) => sum + Number(p.lag), 0));
  if (last && when > last.when) {
    let records = 0;
    for (const [p, n] of now) records += Math.max(0, n - (last.consumed.get(p) ?? n)); // a partition that has just come counts from now on
    rate.add(when, 1000 * records / (when - last.when));
  }
  last = { when, consumed: now };
}

/** The figures above everything. */
export function showFigures(status) {
  const sum = f => status.partitions.reduce((n, p) => n + Number(f(p)), 0);
  const ages = status.partitions.map(p => p.snapshot && Number(p.snapshot.age_seconds));
  const live = status.partitions.filter(p => p.state === "live").length;
  say(at("figure-live"), `${live} of ${status.partitions.length}`);
  say(at("figure-folded"), grouped(sum(p => p.counts.folded)));
  say(at("figure-keys"), `≈ ${grouped(sum(p => p.keys))}`);
  say(at("figure-bad"), grouped(sum(p => p.counts.bad)));
  say(at("figure-size"), bytes(sum(p => p.state_bytes)));
  say(at("figure-snapshot"), ages.length === 0 || ages.includes(null) ? "none yet" : duration(Math.max(...ages)));
}

/** The member's page, as a link where its address is one. */
export function memberLink(m, text) {
  return /^https?:\/\//.test(m.address) ? make("a", { href: `${m.address.replace(/\/$/, "")}/`, rel: "noreferrer" }, text) : text;
}

export function showPartitions(status) {
  const here = new Map(status.partitions.map(p => [Number(p.partition), p]));
  const owners = new Map();
  for (const m of status.members) for (const p of m.partitions) owners.set(Number(p), m);
  const numbers = new Set([...Array(Number(status.topic.partitions)).keys(), ...here.keys(), ...owners.keys()]);
  fill(at("partitions-table"), partitionColumns, [...numbers].sort((a, b) => a - b).map(n => {
    const p = here.get(n), owner = owners.get(n);
    const number = { text: String(n) };
    if (p) return [number, { text: "this one" }, state(p), ...[p.position, p.lag, p.counts.folded, p.counts.bad, p.keys].map(v => ({ text: grouped(v) })), snapshot(p)];
    const nothing = Array(6).fill({ text: "", class: "empty" });
    if (!owner) return [number, { text: "nobody", class: "none" }, badge("bad", "no owner", "The group is assigning it, or has no member."), ...nothing];
    if (owner.member === status.member) return [number, { text: "this one" }, badge("busy", "opening", ""), ...nothing];
    const address = owner.address.replace(/^https?:\/\//, "");
    return [number, { sign: owner.address, draw: () => [memberLink(owner, address || owner.member)] }, badge("", "on its member", ""), ...nothing];
  }));
  at("partitions-table").hidden = numbers.size === 0;
  say(at("partitions-none"), numbers.size === 0 ? "No partitions yet: the topic is not there, or the group has not said who reads it." : "");
}

function badge(colour, word, reason) {
  return {
    sign: `${word} ${reason}`,
    draw: () => [make("span", { class: `badge ${colour}` }, word), ...(reason ? [make("span", { class: "note reason" }, reason)] : [])],
  };
}

/** The state, why, and how far a restore is. */
function state(p) {
  const word = p.state.replace("_", " ");
  const shown = badge(colours[p.state] ?? "", word, p.reason);
  if (!p.restore) return shown;
  const { have, need, remaining_seconds: remaining } = p.restore;
  const left = Number(remaining) > 0 ? `, about ${duration(remaining)} left` : "";
  const text = `${bytes(have)} of ${bytes(need)}${left}`;
  return {
    sign: `${shown.sign} ${text}`,
    draw: () => [...shown.draw(),
      make("progress", { max: String(need), value: String(have), "aria-label": `Restore of partition ${p.partition}` }), make("span", { class: "note" }, text)],
  };
}

function snapshot({ snapshot: s }) {
  if (!s) return { text: "none yet", class: "none" };
  return { text: `no. ${grouped(s.seq)}, ${duration(s.age_seconds)} old` };
}
