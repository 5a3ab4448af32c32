// Parts of a page that are fetched: at first, and again where a link of a part changes the state in the address.
import { byId, failure, leadsElsewhere, request } from "./view.js";

const actions = [], arrived = new Set();
let latest = 0;

// Calls `action(part)` each time that a part has its content, and for those that have it already: other modules may load later.
export function onPart(action) {
  actions.push(action);
  arrived.forEach(action);
}

export async function loadPart(part) {
  part.ariaBusy = "true";
  const turn = part.turn = ++latest;
  const html = await request(part.dataset.part + location.search).then((response) => response.text()).catch(({ message }) => failure(message));
  // A later state of the address has been requested meanwhile.
  if (part.turn !== turn) return;
  // The server wrote it from escaped text, under a policy that allows no script in it.
  if (typeof html === "string") part.innerHTML = html;
  else part.replaceChildren(html);
  part.ariaBusy = "false";
  arrived.add(part);
  for (const action of actions) action(part);
}

// The element that had the focus is replaced: the one with its id gets it, or what the state opens.
async function reload(part, focusId) {
  await loadPart(part);
  const next = part.querySelector("[data-focus]") ?? byId(focusId);
  next?.focus({ preventScroll: next.id === focusId });
}

function followState(event) {
  const link = event.target.closest("a[data-state]");
  if (!link || leadsElsewhere(event)) return;
  event.preventDefault();
  history.pushState(null, "", link.href);
  reload(link.closest("[data-part]"), link.dataset.back ?? link.id);
}

function loadParts(selector) {
  document.querySelectorAll(selector).forEach(loadPart);
}

document.addEventListener("click", followState);
// A link to a place of the page is an entry of the history too: what has no state stays as it is.
addEventListener("popstate", () => loadParts("[data-part]:has(a[data-state])"));
loadParts("[data-part][aria-busy=true]");
