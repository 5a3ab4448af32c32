// Follows the run of a page, or the list of runs, and brings what changes into the page.

import { byId, element } from "./view.js";
import { morph } from "./morph.js";
import { follow } from "./stream.js";

const ANNOUNCED_MS = 10_000;
const address = document.querySelector("meta[name=events]").content;
const announcer = element("p", { className: "unseen", ariaLive: "polite" });
const notices = element("aside", { className: "notices", ariaLabel: "Notices" });
document.body.append(announcer, notices);

let before = {};
let newest, announcedAt = -Infinity, waiting, lostSince;

// Screen readers get the latest text, at most one each ten seconds.
function announce(text) {
  clearTimeout(waiting);
  const wait = announcedAt + ANNOUNCED_MS - performance.now();
  if (wait > 0) waiting = setTimeout(announce, wait, text);
  else if (announcer.textContent !== text) {
    announcer.textContent = text;
    announcedAt = performance.now();
  }
}

// Notices lie over the end of the window, so that nothing moves; there is one of each kind.
function notify(kind, ...inside) {
  dismiss(kind);
  const notice = element("p", { id: `notice-${kind}` }, ...inside);
  notices.append(notice);
  announce(notice.textContent);
}

function dismiss(kind) {
  byId(`notice-${kind}`)?.remove();
}

// 14:03:05, with the date where that is another day.
function localTime(moment) {
  const [text, now] = [moment, new Date()].map((time) => time.toLocaleString("sv-SE"));
  return text.slice(0, 10) === now.slice(0, 10) ? text.slice(11) : text;
}

function parse(html) {
  const parsed = new DOMParser().parseFromString(html, "text/html");
  for (const time of parsed.querySelectorAll("#progress time")) time.textContent = localTime(new Date(time.dateTime));
  return parsed;
}

function showProgress(state) {
  const progress = byId("progress");
  if (!progress) return;
  morph(progress, parse(`<div id="progress">${state.html}</div>`).getElementById("progress"));
  announce(state.announcement);
}

let refreshes = 0;

// Brings the parts of the page that say so up to date.
export async function refresh() {
  const turn = ++refreshes;
  const response = await fetch(location.href);
  if (!response.ok) return;
  const page = parse(await response.text());
  // Another request was sent meanwhile, for a filter or a later change, and its response counts, even if it came first.
  if (turn !== refreshes) return;
  for (const part of document.querySelectorAll("[data-live]")) {
    const fresh = page.getElementById(part.id);
    if (fresh) morph(part, fresh);
  }
}

async function showResults() {
  const live = byId("live");
  if (!live || live.dataset.ended) return;
  live.dataset.ended = "yes";
  const [{ loadPart }] = await Promise.all([import("./parts.js"), import("./results.js")]);
  const results = byId("results");
  results.replaceChildren(element("p", { className: "status" }, "The run has ended: computing its results"));
  await Promise.allSettled([refresh(), loadPart(results)]);
  // If the server was gone, they are loaded when it is back.
  if (results.querySelector(":scope > .failure")) {
    delete live.dataset.ended;
    return;
  }
  if (live.contains(document.activeElement)) byId("main").focus({ preventScroll: true });
  live.remove();
  announce("The run has ended, and this page has its results.");
}

function link({ run, address }) {
  return element("a", { href: address, textContent: `run ${run}` });
}

// A page that is open when a killed run is resumed follows it; one that is opened later has a link.
function followResumed(later) {
  if (!later || later.run === before.resumed_by?.run) return;
  if ("status" in before && byId("live")) location.replace(later.address);
  else notify("resumed", link(later), " has resumed this run.");
}

function showNewest(latest, resuming) {
  if (newest && latest && ![newest.run, resuming?.run].includes(latest.run)) notify("newest", "A newer run has begun: ", link(latest), ".");
  newest = latest;
}

function showLost(status) {
  if (status === 200) return;
  lostSince ??= new Date();
  if (status === 403) notify("lost", "The dashboard was started again: open its new link in this browser, and this page goes on.");
  else notify("lost", `The dashboard does not answer since ${localTime(lostSince)}: this page goes on when it does.`);
}

const SHOW = {
  running: showProgress,
  ended: showResults,
  // The first state too: a run may have begun since the page was made.
  runs: refresh,
  removed: () => notify("removed", `run ${document.body.dataset.run} was removed from this store`),
};

function show(state) {
  if ("lost" in state) return showLost(state.lost);
  lostSince = undefined;
  dismiss("lost");
  if (state.problem) return notify("problem", state.problem);
  dismiss("problem");
  if ("newest" in state) {
    followResumed(state.resumed_by);
    showNewest(state.newest, state.resumed_by);
  }
  SHOW[state.status](state);
  before = state;
}

follow(address, show);
