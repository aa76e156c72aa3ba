import { at, clock, complain, fill, grouped, make, say } from "./dom.js";
import { Problem, get } from "./server.js";
import { memberLink } from "./partitions.js";

// The members of the group, the bad records, and the definition.

const remembered = 600_000; // ms that a member that has left is still shown
const gone = new Map(); // member -> {m, since}, of those that have left
let there = new Map();

export function showMembers(status) {
  const now = new Map(status.members.map(m => [m.member, m]));
  for (const [id, m] of there) if (!now.has(id)) gone.set(id, { m, since: new Date() });
  for (const [id, { since }] of gone) if (now.has(id) || Date.now() - since > remembered) gone.delete(id);
  there = now;
  const shown = (m, about, partitions) => [
    { sign: m.member + about.text, draw: () => [make("span", { class: "id" }, m.member), ...(about.text ? [make("span", { class: `badge ${about.class}` }, about.text)] : [])] },
    { sign: m.address, draw: () => [m.address ? memberLink(m, m.address) : "told none"] },
    { text: partitions },
  ];
  const rows = status.members.map(m => shown(m, m.member === status.member ? { text: "this one", class: "good" } : { text: "" },
    m.partitions.length ? m.partitions.map(String).join(", ") : "none: it waits for its turn"));
  for (const { m, since } of gone.values()) rows.push(shown(m, { text: "gone", class: "bad" }, `it left the group at ${clock(since)}`));
  fill(at("members-table"), [{ name: "Member" }, { name: "Address" }, { name: "Partitions" }], rows);
  at("members-table").hidden = rows.length === 0;
  say(at("members-none"), rows.length === 0 ? "This member has not heard from the group yet." : "");
}

let known = ""; // the counts for which the samples are shown

/** Shows the bad records by reason, and asks for samples where there are new ones. */
export async function showBad(status) {
  const reasons = {};
  for (const p of status.partitions) for (const [reason, n] of Object.entries(p.bad_reasons)) reasons[reason] = (reasons[reason] ?? 0) + Number(n);
  const sorted = Object.entries(reasons).sort((a, b) => b[1] - a[1]);
  fill(at("bad-table"), [{ name: "Reason" }, { name: "Records", number: true }], sorted.map(([reason, n]) => [{ text: reason }, { text: grouped(n) }]));
  at("bad-table").hidden = sorted.length === 0;
  const counts = JSON.stringify(sorted);
  if (counts === known) return;
  say(at("bad-none"), sorted.length === 0 ? "No bad records in the partitions of this member." : "");
  try {
    const { records } = await get("v1/bad-records");
    known = counts;
    complain(at("bad-problem"), null);
    fill(at("samples-table"), [{ name: "Reason" }, { name: "Where" }, { name: "What is wrong" }, { name: "Seen" }], records.slice(0, 12).map(r => [
      { text: r.reason }, { text: `${r.topic} ${r.partition}, offset ${r.offset}` }, { text: r.error }, { text: clock(new Date(r.seen)) },
    ]));
    at("samples").hidden = records.length === 0;
    if (sorted.length > 0 && records.length === 0) say(at("bad-none"), "None of them since this member started.");
  } catch (e) {
    if (!(e instanceof Problem)) throw e;
    complain(at("bad-problem"), e);
  }
}

export function showDefinition(definition) {
  fill(at("columns-table"), [{ name: "Column" }, { name: "Is" }], definition.columns.map(({ name, expression }) => [
    { sign: name, draw: () => [name, ...(definition.keys.includes(name) ? [" ", make("span", { class: "badge" }, "key")] : [])] },
    { sign: expression, draw: () => [make("code", {}, expression)] },
  ]));
  say(at("sql"), definition.sql);
  say(at("fingerprint"), definition.fingerprint);
}
