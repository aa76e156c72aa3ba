import { after, at, clock, complain, say } from "./dom.js";
import { Problem, get, tokenGiven } from "./server.js";
import { askForKey } from "./lookup.js";
import { showTop } from "./top.js";
import { showListing } from "./listing.js";
import { plot, showFigures, showPartitions } from "./partitions.js";
import { showBad, showDefinition, showMembers } from "./group.js";

// The status, every two seconds, and what follows from it.

const statusPause = 2_000; // ms

const theme = at("theme");
theme.value = document.documentElement.dataset.theme;
theme.addEventListener("change", () => {
  document.documentElement.dataset.theme = theme.value;
  try { localStorage.setItem("tidemark-theme", theme.value); } catch { /* chosen for this page alone */ }
});

let fingerprint = ""; // of the definition that is shown

function showStatus(status) {
  say(at("group"), status.group);
  document.title = `${status.group} · Tidemark`;
  say(at("about"), `Topic ${status.topic.name}. Generation ${status.generation}, ${status.members.length} member${status.members.length === 1 ? "" : "s"}. ` +
    `This is ${status.member || "a member that is not in the group yet"}, version ${status.version}.${history(status.history)}`);
  if (status.definition.fingerprint !== fingerprint) {
    fingerprint = status.definition.fingerprint;
    showDefinition(status.definition);
    askForKey(status.definition);
    showTop(status.definition);
    showListing(status.definition);
  }
  plot(status);
  showFigures(status);
  showPartitions(status);
  showMembers(status);
  at("content").dataset.shown = "yes";
  return showBad(status);
}

function history(h) {
  if (!h) return "";
  return h.complete ? ` The history is in: ${h.documents} documents in this member's partitions.` : ` The history is being read: ${h.documents} documents so far.`;
}

/** Says that there is no answer, since when, and takes it back. */
function reachable(problem, since) {
  at("content").classList.toggle("stale", Boolean(problem));
  complain(at("trouble"), problem && new Problem({
    title: problem.sentence(), detail: since ? `What is below is as of ${clock(since)}; the page goes on by itself` : "The page goes on trying",
  }));
}

async function run() {
  let heard = null;
  for (;;) {
    try {
      const status = await get("v1/status");
      heard = new Date();
      reachable(null);
      await showStatus(status);
    } catch (e) {
      if (!(e instanceof Problem)) throw e;
      if (e.type === "unauthorized") {
        reachable(null);
        await tokenGiven();
        continue;
      }
      reachable(e, heard);
    }
    await after(statusPause);
  }
}

run();
