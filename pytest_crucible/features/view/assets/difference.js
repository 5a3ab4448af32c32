// Two texts of a sample compared by word: chosen by two lists, and drawn in parts that leave the page responsive.
import { byId, element, grouped, readState, request, writeState } from "./view.js";
import { DELETED, INSERTED, KEPT } from "./word_difference.js";

const MARKS = { [DELETED]: "del", [INSERTED]: "ins" };
// Characters of a part of a text, and changes in it.
const A_PART = 1_000, MOST_CHANGES = 100;
// Milliseconds after which drawing pauses for the page.
const A_SLICE = 40;
const BETWEEN = "~";

export class Comparison {
  constructor(section) {
    this.section = section;
    [this.from, this.to] = section.querySelectorAll("select");
    this.button = section.querySelector("button");
    this.status = section.querySelector("[role=status]");
    this.output = section.querySelector("#difference");
    this.button.addEventListener("click", () => this.toggle());
    section.addEventListener("change", () => this.show());
    // Started before it is needed: its modules have to be read.
    this.startWorker();
    this.restore();
  }

  // Opens what the address of the page says.
  restore() {
    const [from, to] = readState("compare").split(BETWEEN);
    const has = (select, key) => [...select.options].some(({ value }) => value === key);
    if (!has(this.from, from) || !has(this.to, to)) return;
    this.from.value = from;
    this.to.value = to;
    this.show();
  }

  // A comparison that is still running is stopped.
  startWorker() {
    this.worker?.terminate();
    this.isWorking = false;
    this.worker = new Worker(new URL("diff_worker.js", import.meta.url), { type: "module" });
    this.worker.onerror = () => this.fail("The texts could not be compared: reload the page");
  }

  get isOpen() {
    return this.button.ariaExpanded === "true";
  }

  toggle() {
    if (this.isOpen) this.hide();
    else this.show();
  }

  hide() {
    this.comparing = null;
    this.button.ariaExpanded = "false";
    this.output.hidden = true;
    this.status.textContent = "";
    writeState("compare", "");
  }

  // Compares the chosen texts in the worker.
  async show() {
    const comparing = (this.comparing = [this.from.value, this.to.value]);
    this.button.ariaExpanded = "true";
    this.output.hidden = false;
    this.output.dataset.state = "comparing";
    this.status.textContent = "Comparing";
    writeState("compare", comparing.join(BETWEEN));
    // At once: on the way a browser would lay out all that it passes.
    this.section.scrollIntoView({ block: "start", behavior: "instant" });
    try {
      const texts = await Promise.all(comparing.map((key) => this.read(key)));
      if (this.comparing === comparing) await this.draw(comparing, texts, await this.compare(...texts));
    } catch ({ message }) {
      if (this.comparing === comparing) this.fail(message);
    }
  }

  compare(before, after) {
    if (this.isWorking) this.startWorker();
    this.isWorking = true;
    this.worker.postMessage({ before, after });
    return new Promise((resolve) => {
      this.worker.onmessage = ({ data }) => {
        this.isWorking = false;
        resolve(data);
      };
    });
  }

  fail(sentence) {
    this.status.textContent = sentence;
    this.output.hidden = true;
  }

  // The text as it stands on the page, or else as the server has it.
  async read(key) {
    const block = byId(key);
    if (block) return block.textContent;
    return (await request(`${this.section.dataset.texts}?of=${encodeURIComponent(key)}`)).text();
  }

  async draw(comparing, [before, after], difference) {
    if (this.comparing !== comparing) return;
    this.status.textContent = summary(difference, before === after);
    this.output.replaceChildren();
    this.output.dir = "auto";
    for (const part of parts(difference.spans, before, after)) {
      this.output.append(part);
      // The first part decides: a browser would look through all text for a letter again with each part of signs or emoji.
      if (this.output.dir === "auto" && this.output.children.length > 1) this.output.dir = this.output.matches(":dir(rtl)") ? "rtl" : "ltr";
      if (await pause() && this.comparing !== comparing) return;
    }
    this.output.dataset.state = "done";
  }
}

let sliceEnds = 0;

// Lets the page respond where a slice of time is over.
async function pause() {
  if (performance.now() < sliceEnds) return false;
  await (globalThis.scheduler?.yield?.() ?? new Promise((resolve) => setTimeout(resolve)));
  sliceEnds = performance.now() + A_SLICE;
  return true;
}

function count(number, what) {
  return `${grouped(number)} ${number === 1 ? "word" : "words"} ${what}`;
}

function summary({ words: { kept, deleted, inserted }, hasLittle, isShortest }, isEqual) {
  if (isEqual) return "The two texts are equal.";
  const counts = `${count(deleted, "deleted")} (struck out), ${count(inserted, "inserted")} (underlined), ${count(kept, "in both")}.`;
  if (hasLittle) return `The texts have little in common: ${counts}`;
  return isShortest ? counts : `${counts} The texts are long: a shorter list of changes may exist.`;
}

// Yields the parts of the difference, each with about as much as a screen shows.
function* parts(spans, before, after) {
  let nodes = [], length = 0;
  for (const [kind, text] of pieces(spans, before, after)) {
    nodes.push(kind === KEPT ? text : element(MARKS[kind], { textContent: text }));
    length += text.length;
    if (length < A_PART && nodes.length < MOST_CHANGES) continue;
    yield element("span", { className: "part" }, ...nodes);
    [nodes, length] = [[], 0];
  }
  yield element("span", { className: "part" }, ...nodes);
}

// Yields kind and text of each span, long ones in pieces.
function* pieces(spans, before, after) {
  for (let row = 0; row < spans.length; row += 3) {
    const [kind, start, end] = spans.subarray(row, row + 3);
    const text = kind === INSERTED ? after : before;
    for (let from = start, to; from < end; from = to) {
      to = end - from > A_PART ? breakAfter(text, from) : end;
      yield [kind, text.slice(from, to)];
    }
  }
}

// The end of a piece: a line or a blank if there is one, and never the middle of a character.
function breakAfter(text, from) {
  const half = from + A_PART / 2, most = from + A_PART;
  // Not lastIndexOf with a place to begin at: where there is none, it would search the whole text before.
  const window = text.slice(half, most);
  const last = [window.lastIndexOf("\n"), window.lastIndexOf(" ")].find((place) => place >= 0);
  if (last !== undefined) return half + last + 1;
  return /[\udc00-\udfff]/.test(text[most]) ? most - 1 : most;
}
