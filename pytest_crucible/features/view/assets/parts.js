// Parts of a page that are fetched: at first, and again where a link of a part changes the state in the address.
import { element } from "./view.js";

const parts = () => document.querySelectorAll("[data-part]");
const loaded = new EventTarget();
const GONE = 'the server does not answer: does "crucible view" still run? Reload to try again';
let latest = 0;

// Calls `action(part)` each time that a part has its content.
export function onPart(action) {
  loaded.addEventListener("part", ({ detail }) => action(detail));
}

async function loadPart(part) {
  part.setAttribute("aria-busy", "true");
  const turn = part.turn = ++latest;
  const response = await fetch(part.dataset.part + location.search).catch(() => null);
  const html = await response?.text().catch(() => null);
  // A later state of the address has been requested meanwhile.
  if (part.turn !== turn) return;
  // The server wrote it from escaped text, under a policy that allows no script in it.
  if (response?.ok) part.innerHTML = html;
  else part.replaceChildren(element("p", { className: "failure", role: "alert", textContent: html || GONE }));
  part.setAttribute("aria-busy", "false");
  loaded.dispatchEvent(new CustomEvent("part", { detail: part }));
}

// The element that had the focus is replaced: the one with its id gets it, or what the state opens.
async function reload(part, focusId) {
  await loadPart(part);
  const next = part.querySelector("[data-focus]") ?? document.getElementById(focusId);
  next?.focus({ preventScroll: next.id === focusId });
}

function followState(event) {
  const link = event.target.closest("a[data-state]");
  if (!link || event.button || event.ctrlKey || event.metaKey || event.shiftKey || event.altKey) return;
  event.preventDefault();
  history.pushState(null, "", link.href);
  reload(link.closest("[data-part]"), link.dataset.back ?? link.id);
}

document.addEventListener("click", followState);
window.addEventListener("popstate", () => parts().forEach(loadPart));
parts().forEach(loadPart);
