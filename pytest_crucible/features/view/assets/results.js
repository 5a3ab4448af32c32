// The verdicts and sections of a finished run: fetched into its page, and opened as its address says.
import { registerKey } from "./keys.js";
import { openAsAddressed } from "./opened.js";
import { element } from "./view.js";

const place = document.getElementById("results");

async function fetchPart(address) {
  const response = await fetch(address);
  const text = await response.text();
  if (!response.ok) throw new Error(text);
  const template = document.createElement("template");
  // Rendered from escaped text, as pages are; no script in a template runs, and the page's policy allows none.
  template.innerHTML = text;
  const part = template.content;
  if (part.firstElementChild?.matches(".failure")) throw new Error(part.textContent.trim());
  return part;
}

function showFailure(where, sentence) {
  where.replaceChildren(element("p", { className: "failure", role: "alert", textContent: sentence }));
}

function placeExplanations(part) {
  for (const explanation of part.querySelectorAll("[data-explains]")) {
    const details = document.getElementById(explanation.dataset.explains);
    details?.querySelector(".status")?.replaceWith(...explanation.children);
  }
  const sections = [...part.querySelectorAll("section")];
  for (const { id, firstElementChild } of sections) {
    place.querySelector("nav").append(element("a", { href: `#${id}`, textContent: firstElementChild.textContent }));
  }
  document.getElementById("facts").replaceWith(...sections);
}

async function loadExplanations() {
  try {
    placeExplanations(await fetchPart(place.dataset.explanations));
  } catch (error) {
    for (const status of place.querySelectorAll(".explanation > .status")) showFailure(status, error.message);
    document.getElementById("facts").remove();
  }
}

// Called when the page of a finished run is opened, and when a run ends on an open page.
export async function loadResults() {
  place.setAttribute("aria-busy", "true");
  try {
    place.replaceChildren(await fetchPart(place.dataset.results));
    openAsAddressed(place.querySelectorAll("details"));
    if (location.hash) document.getElementById(location.hash.slice(1))?.scrollIntoView();
    loadExplanations();
  } catch (error) {
    showFailure(place, error.message);
  }
  place.setAttribute("aria-busy", "false");
}

// Enter opens what has the focus, as everywhere.
function focusVerdict(step) {
  const verdicts = [...place.querySelectorAll(".explained")].map((row) => row.querySelector("summary, a"));
  const now = verdicts.findIndex((link) => link.closest("td").contains(document.activeElement));
  verdicts[Math.max(0, Math.min(verdicts.length - 1, now < 0 ? 0 : now + step))]?.focus();
}

registerKey("j", "next verdict", () => focusVerdict(1));
registerKey("k", "previous verdict", () => focusVerdict(-1));
if (place.getAttribute("aria-busy") === "true") loadResults();
