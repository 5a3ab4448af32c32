// Parts of a page that are fetched: at first, and again where a link of a part changes the state in the address.

const parts = () => document.querySelectorAll("[data-part]");
const loaded = new EventTarget();

// Calls `action(part)` each time that a part has its content.
export function onPart(action) {
  loaded.addEventListener("part", (event) => action(event.detail));
}

function fail(part, sentence) {
  const message = document.createElement("p");
  message.className = "failure";
  message.setAttribute("role", "alert");
  message.textContent = sentence;
  part.replaceChildren(message);
}

let latest = 0;

async function loadPart(part) {
  part.setAttribute("aria-busy", "true");
  const turn = part.turn = ++latest;
  try {
    const response = await fetch(part.dataset.part + location.search);
    const html = await response.text();
    // A later state of the address has been asked for meanwhile.
    if (part.turn !== turn) return;
    if (!response.ok) throw new Error(html);
    // The server wrote it from escaped text, under a policy that allows no script in it.
    part.innerHTML = html;
  } catch {
    fail(part, "the server does not answer: is `crucible view` still running? Reload the page to try again");
  }
  part.setAttribute("aria-busy", "false");
  loaded.dispatchEvent(new CustomEvent("part", { detail: part }));
}

// The element that had the focus is replaced: the one with its id gets it, else the one that the state opens.
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
window.addEventListener("popstate", () => parts().forEach((part) => loadPart(part)));
parts().forEach((part) => loadPart(part));
