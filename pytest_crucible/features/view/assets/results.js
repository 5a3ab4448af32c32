// The verdicts and sections of a finished run: fetched into its page, and opened as its address says.
import { focusRow, registerSteps } from "./keys.js";
import { openAsAddressed } from "./opened.js";
import { loadPart, onPart } from "./parts.js";
import { byId, element } from "./view.js";

const place = byId("results");

function showResults() {
  openAsAddressed(place.querySelectorAll("details"));
  if (location.hash) byId(location.hash.slice(1))?.scrollIntoView();
  const facts = byId("facts");
  if (facts) loadPart(facts);
}

// Puts what the server says of each verdict into its row, and the sections on all of them in their place.
function placeExplanations(facts) {
  const problem = facts.querySelector(".failure");
  for (const { dataset, children } of facts.querySelectorAll("[data-explains]")) {
    byId(dataset.explains)?.querySelector(".status")?.replaceWith(...children);
  }
  if (problem) for (const status of place.querySelectorAll(".explanation > .status")) status.replaceWith(problem.cloneNode(true));
  const sections = [...facts.querySelectorAll("section")];
  const links = sections.map(({ id, firstElementChild }) => element("a", { href: `#${id}`, textContent: firstElementChild.textContent }));
  place.querySelector("nav").append(...links);
  facts.replaceWith(...sections);
}

onPart((part) => { if (part === place) showResults(); else placeExplanations(part); });
// Enter opens what has the focus, as everywhere.
registerSteps("verdict", (by) => focusRow([...place.querySelectorAll(".explained")].map((row) => row.querySelector("summary, a")), by));
