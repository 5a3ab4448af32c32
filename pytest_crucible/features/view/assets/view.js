// What all pages share.

const GONE = 'the server does not answer: does "crucible view" still run? Reload to try again';

// What a model wrote reaches the page as text only: `inside` are nodes and texts, never markup.
export function element(tag, properties = {}, ...inside) {
  const made = Object.assign(document.createElement(tag), properties);
  made.append(...inside);
  return made;
}

export const byId = (id) => document.getElementById(id);

export const grouped = (number) => number.toLocaleString("en");

export function clamp(value, most) {
  return Math.max(0, Math.min(value, most));
}

export function failure(sentence) {
  return element("p", { className: "failure", role: "alert", textContent: sentence });
}

// Returns the response to a request. Throws an error with the server's sentence, or one that says that it is gone.
export async function request(address, options) {
  const response = await fetch(address, options).catch((error) => { throw error.name === "AbortError" ? error : new Error(GONE); });
  if (response.ok) return response;
  const isJson = response.headers.get("content-type")?.startsWith("application/json");
  throw new Error(isJson ? (await response.json()).error : await response.text());
}

// One value of the state in the address; empty without it.
export function readState(name) {
  return new URLSearchParams(location.search).get(name) ?? "";
}

// Writes a value of the state, without a new entry in the history; an empty one is left out.
export function writeState(name, value) {
  const url = new URL(location);
  if (value) url.searchParams.set(name, value);
  else url.searchParams.delete(name);
  history.replaceState(history.state, "", url);
}

// Whether a click opens its link elsewhere, such as in another tab.
export function leadsElsewhere({ button, ctrlKey, metaKey, shiftKey, altKey }) {
  return button || ctrlKey || metaKey || shiftKey || altKey;
}
