// Shows one reply after the other, and writes a label before the next one is shown.
import { registerKey, registerSteps } from "./keys.js";
import { byId, element, grouped, readState } from "./view.js";

const form = byId("labels");
const choices = [...form.querySelectorAll(".choices button")];
const { by, note } = form.elements;
const TAKEN = new Set(["u", "j", "k", "n", "?", "/"]);
const undone = [];
let current = null;

const write = (id, text) => { byId(id).textContent = text; };

function showError(sentence) {
  byId("error").hidden = !sentence;
  write("error", sentence);
}

async function answer(request) {
  try {
    const response = await request;
    const text = await response.text();
    // What guards the dashboard refuses by a sentence alone, for example after a new start.
    return response.headers.get("content-type") === "application/json" ? JSON.parse(text) : { error: text };
  } catch {
    return { error: "the dashboard does not answer: start it again; your note is still here" };
  }
}

function showTexts(reply) {
  for (const name of ["prompt", "sent", "expected", "reply"]) write(name, reply[name] ?? "");
  byId("variant").hidden = reply.sent == null;
  Object.assign(byId("reference"), { hidden: reply.expected == null, open: false });
}

function markLabel(label) {
  for (const choice of choices) {
    choice.disabled = !current;
    choice.ariaPressed = Boolean(label) && choice.value === label;
  }
}

function showReply(reply) {
  current = reply.at ? reply : null;
  showTexts(reply);
  markLabel(reply.label);
  note.value = reply.note ?? "";
  write("left", `${grouped(reply.left)} of ${grouped(reply.total)} left`);
  write("reply-title", current ? `Reply ${grouped(reply.at)}` : "All replies have a label");
  window.scrollTo(0, 0);
}

async function load(at) {
  const reply = await answer(fetch(`${form.dataset.reply}?${new URLSearchParams({ by: by.value, at })}`));
  showError(reply.error ?? "");
  if (reply.error) return false;
  showReply(reply);
  return true;
}

// The place is in the address: a bookmark and the back button lead to the same reply.
function setAddress(at, method) {
  const state = new URLSearchParams({ by: by.value });
  if (at) state.set("at", at);
  history[method](null, "", `?${state}`);
}

async function open(at) {
  if (await load(at)) setAddress(current?.at ?? "", "pushState");
}

async function record(label) {
  const { at, id, label: before } = current;
  const body = JSON.stringify({ by: by.value, at: String(at), id, label, note: note.value, before });
  const headers = { "Content-Type": "application/json", "X-Crucible-Token": form.dataset.token };
  const result = await answer(fetch(form.dataset.record, { method: "POST", headers, body }));
  showError(result.error ?? "");
  if (result.error && result.label !== undefined) {
    current.label = result.label;
    markLabel(result.label);
  }
  return result;
}

let isWriting = false;

// A key that is held, or pressed twice, labels one reply.
async function choose(label) {
  if (!current || isWriting) return;
  isWriting = true;
  const { at } = current;
  const result = await record(label);
  if (!result.error) {
    undone.push(at);
    write("message", `Reply ${at} is ${label}.`);
    await open(result.next ?? "");
  }
  isWriting = false;
}

async function undo() {
  const at = undone.at(-1);
  if (at === undefined || isWriting) return write("message", "There is no label of this page to take back: k goes to the reply before.");
  isWriting = true;
  if (await load(at)) {
    const result = await record("");
    if (!result.error) {
      undone.pop();
      const typed = note.value;
      await open(at);
      note.value = typed;
      write("message", `The label of reply ${at} is taken back.`);
    }
  }
  isWriting = false;
}

function step(by) {
  const at = (current?.at ?? 0) + by;
  if (at >= 1) open(at);
}

function registerLabel(choice, index) {
  const letter = choice.value[0].toLowerCase();
  const keys = [String(index + 1)];
  if (/\w/.test(letter) && !TAKEN.has(letter)) keys.unshift(letter);
  for (const key of keys) {
    TAKEN.add(key);
    registerKey(key, `label: ${choice.value}`, () => choose(choice.value));
  }
  choice.append(" ", element("kbd", { textContent: keys[0] }));
  choice.setAttribute("aria-keyshortcuts", keys.join(" "));
  choice.addEventListener("click", () => choose(choice.value));
}

choices.forEach(registerLabel);
registerKey("u", "take the last label back", undo);
registerSteps("reply, without a label", step);
registerKey("n", "write a note", () => note.focus());
note.addEventListener("keydown", (event) => { if (event.key === "Escape") note.blur(); });
by.addEventListener("change", () => open(""));
form.addEventListener("submit", (event) => { event.preventDefault(); by.blur(); });
window.addEventListener("popstate", () => {
  by.value = readState("by") || by.defaultValue;
  load(readState("at"));
});
if (await load(readState("at"))) setAddress(current?.at ?? "", "replaceState");
