// Keys of a page, and the dialog that lists them.
import { byId, clamp, element } from "./view.js";

const actions = new Map();
const NAMES = { Escape: "Esc", ArrowDown: "\u2193", ArrowUp: "\u2191" };
const FIELDS = "input, select, textarea, [contenteditable]";
const OPENED_BY_ENTER = "a, button, summary";

// Calls `action(event)` where a key (as KeyboardEvent.key names it) is pressed, and lists it by its description.
export function registerKey(key, description, action) {
  actions.set(key, { description, action });
}

// The name of a pressed key. On a layout without Latin letters it is the letter printed on that place of a Latin one.
function nameOf({ key, code }) {
  const isLetter = key.length === 1 && key.toLowerCase() !== key.toUpperCase();
  if (isLetter && key > "\u007f" && code.startsWith("Key")) return code.slice(3).toLowerCase();
  return isLetter ? key.toLowerCase() : key;
}

// Shift belongs to a character such as ?, and AltGr (which some systems report as Ctrl and Alt) to / on some layouts.
function hasModifier(event, name) {
  if (event.getModifierState("AltGraph")) return false;
  return event.ctrlKey || event.altKey || event.metaKey || (event.shiftKey && (name.length > 1 || /[a-z]/.test(name)));
}

function isForElement(event, name) {
  const { target } = event;
  if (!(target instanceof Element)) return false;
  return (name !== "Escape" && target.closest(FIELDS)) || (name === "Enter" && target.closest(OPENED_BY_ENTER));
}

function dispatchKey(event) {
  const name = nameOf(event);
  const row = actions.get(name);
  if (!row || event.defaultPrevented || event.isComposing || document.querySelector("dialog[open]")) return;
  if (hasModifier(event, name) || isForElement(event, name)) return;
  event.preventDefault();
  row.action(event);
}

// Registers j and k, which move by one: `step(1)` to the next and `step(-1)` to the previous `name`.
export function registerSteps(name, step) {
  registerKey("j", `next ${name}`, () => step(1));
  registerKey("k", `previous ${name}`, () => step(-1));
}

// Moves the focus among the links of a table's rows, from the row that has it or else from that of `open`. Returns the link.
export function focusRow(links, by, open) {
  const focused = links.findIndex((link) => link.closest("tr").contains(document.activeElement));
  const from = focused < 0 ? links.indexOf(open) : focused;
  const next = links[from < 0 ? 0 : clamp(from + by, links.length - 1)];
  next?.focus();
  return next;
}

function keyRow([key, { description }]) {
  return element("div", {}, element("dt", {}, element("kbd", { textContent: NAMES[key] ?? key })), element("dd", { textContent: description }));
}

// A native dialog closes by Esc and gives the focus back to the element that had it.
function openKeys() {
  const heading = element("h2", { id: "keys-heading", textContent: "Keys of this page" });
  const close = element("button", { type: "button", textContent: "Close" });
  const dialog = element("dialog", { className: "keys" }, heading, element("dl", {}, ...[...actions].map(keyRow)), close);
  dialog.setAttribute("aria-labelledby", heading.id);
  close.addEventListener("click", () => dialog.close());
  dialog.addEventListener("close", () => dialog.remove());
  document.body.append(dialog);
  dialog.showModal();
}

registerKey("?", "list these keys", openKeys);
document.addEventListener("keydown", dispatchKey);
byId("keys")?.addEventListener("click", openKeys);
