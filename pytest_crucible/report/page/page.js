"use strict";
// What a model wrote reaches the page as text only: everything here goes through textContent.
const A_PAGE = 50;

async function unpacked(id) {
  const letters = document.getElementById(id).textContent;
  const bytes = Uint8Array.from(atob(letters), (letter) => letter.charCodeAt(0));
  const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip"));
  return new Response(stream).json();
}

function made(tag, properties, ...inside) {
  const one = Object.assign(document.createElement(tag), properties);
  one.append(...inside);
  return one;
}

function number(value) {
  return value === null ? "-" : String(Number(value.toPrecision(4))).replace("-", "\u2212");
}

const CUT = "(not in this page)";
const IN_FULL = "with prompt and replies";
const FATES = { a: "answered", f: "failed", l: "lost", s: "skipped" };

class Explorer {
  constructor(place, scene) {
    this.place = place;
    this.scene = scene;
    this.parts = new Map();
    this.page = 0;
    this.search = 0;
  }

  async open() {
    this.data = await unpacked(`columns-${this.scene}`);
    const { ids, kept } = this.data;  // without a list all samples have their texts here
    this.kept = kept === null ? null : new Map(kept.map((k, place) => [k, place]));
    this.order = kept ?? [...ids.keys()];
    const name = this.data.metric ?? this.data.metrics[0]?.name;
    this.controls = this.filters(name);
    this.count = made("p", { className: "count", role: "status" });
    this.list = made("ol", { className: "list" });
    this.back = made("button", { type: "button", textContent: "Previous" });
    this.next = made("button", { type: "button", textContent: "Next" });
    this.where = made("span", {});
    this.back.addEventListener("click", () => this.turn(-1));
    this.next.addEventListener("click", () => this.turn(1));
    const pages = made("div", { className: "pages" }, this.back, this.where, this.next);
    this.place.replaceChildren(this.controls, this.count, this.list, pages);
    await this.filter();
  }

  filters(metric) {
    const { arms, groups, metrics } = this.data;
    const outcomes = ["all", "failed or lost"];
    if (arms.length > 1) outcomes.splice(1, 0, `${arms[0]} worse`, `${arms[0]} better`, "equal");
    if (this.kept) outcomes.push(IN_FULL);
    this.outcome = this.choice("show", outcomes);
    this.metric = this.choice("by", metrics.map((one) => one.name), metric);
    const sorts = ["dataset order", "worst first", "best first", "slowest first"];
    if (arms.length > 1) sorts.splice(1, 0, "most lost first", "most gained first");
    this.sort = this.choice("order", sorts);
    const named = [...new Set(groups.filter(Boolean))].sort();
    this.group = named.length > 1 && named.length <= 2000 ? this.choice("group", ["all", ...named]) : null;
    this.words = made("input", { type: "search", placeholder: "id, prompt or reply" });
    this.words.addEventListener("input", () => {
      clearTimeout(this.waiting);
      this.waiting = setTimeout(() => this.filter(), 250);
    });
    const search = made("label", { textContent: "search" }, this.words);
    const chosen = [this.outcome, this.metric, this.sort, this.group].filter((one) => one !== null);
    return made("form", { className: "filters", onsubmit: (event) => event.preventDefault() }, ...chosen.map((one) => one.parentElement), search);
  }

  choice(name, values, chosen = values[0]) {
    const select = made("select", { ariaLabel: name }, ...values.map((value, k) => made("option", { value: String(k), textContent: value })));
    select.value = String(Math.max(0, values.indexOf(chosen)));
    select.addEventListener("change", () => this.filter());
    made("label", { textContent: name }, select);
    return select;
  }

  chosen(select) {
    return select.options[select.selectedIndex]?.textContent;
  }

  scores() {
    return this.data.metrics[Number(this.metric.value)] ?? { scores: this.data.arms.map(() => []), lower: false };
  }

  gain(k) {
    const { scores, lower } = this.scores();
    const [ours, theirs] = [scores[0][k] ?? null, scores[1]?.[k] ?? null];
    return ours === null || theirs === null ? null : (ours - theirs) * (lower ? -1 : 1);
  }

  async filter() {
    clearTimeout(this.waiting);  // later it would draw the same list again, and close what was opened meanwhile
    const turn = ++this.search;
    const { ids, groups, became } = this.data;
    const outcome = this.chosen(this.outcome);
    const group = this.group === null || this.group.value === "0" ? null : this.chosen(this.group);
    const gains = { worse: (gain) => gain < 0, better: (gain) => gain > 0, equal: (gain) => gain === 0 };
    const kept = gains[Object.keys(gains).find((name) => outcome.endsWith(name))];
    let found = [...ids.keys()].filter((k) => {
      if (group !== null && groups[k] !== group) return false;
      if (outcome === IN_FULL) return this.kept.has(k);
      if (outcome === "failed or lost") return became.some((arm) => arm[k] === "f" || arm[k] === "l");
      const gain = kept ? this.gain(k) : null;
      return !kept || (gain !== null && kept(gain));
    });
    const words = this.words.value.trim().toLowerCase();
    if (words) found = await this.searched(found, words, turn);
    if (turn !== this.search) return;
    this.found = this.sorted(found);
    this.page = 0;
    this.show();
  }

  async searched(among, words, turn) {
    const { ids, part } = this.data;
    const wanted = new Set(among);
    const found = new Set(among.filter((k) => ids[k].toLowerCase().includes(words)));
    for (let start = 0; start < this.order.length; start += part) {  // a part is opened once
      const there = this.order.slice(start, start + part);
      if (!there.some((k) => wanted.has(k))) continue;
      const texts = await this.texts(start / part);
      if (turn !== this.search) return [];
      this.count.textContent = `searching: sample ${(start + 1).toLocaleString("en")} of ${this.order.length.toLocaleString("en")}`;
      there.forEach((k, at) => {
        const [input, expected, said] = texts[at];
        const whole = [input, expected, ...said.flat().map((one) => one[1])];
        if (wanted.has(k) && whole.some((text) => text.toLowerCase().includes(words))) found.add(k);
      });
    }
    return [...found].sort((a, b) => a - b);
  }

  sorted(found) {
    const { latency } = this.data;
    const { scores, lower } = this.scores();
    const good = (k) => { const score = scores[0][k] ?? null; return score === null ? null : lower ? -score : score; };
    const keys = {
      "most lost first": (k) => this.gain(k),
      "most gained first": (k) => { const gain = this.gain(k); return gain === null ? null : -gain; },
      "worst first": good,
      "best first": (k) => { const score = good(k); return score === null ? null : -score; },
      "slowest first": (k) => { const took = latency[0][k]; return took === null ? null : -took; },
    };
    const key = keys[this.chosen(this.sort)];
    if (!key) return found;
    const by = new Map(found.map((k) => [k, key(k) ?? Infinity]));  // what is unknown stands last
    return found.sort((a, b) => (by.get(a) === by.get(b) ? a - b : by.get(a) - by.get(b)));
  }

  show() {
    const { ids } = this.data;
    const last = Math.max(0, Math.ceil(this.found.length / A_PAGE) - 1);
    const shown = this.found.slice(this.page * A_PAGE, (this.page + 1) * A_PAGE);
    const searched = this.kept && this.words.value.trim() ? `; prompts and replies of ${this.order.length.toLocaleString("en")} were searched` : "";
    this.count.textContent = `${this.found.length.toLocaleString("en")} of ${ids.length.toLocaleString("en")} samples${searched}`;
    this.list.replaceChildren(...shown.map((k) => this.item(k)));
    this.where.textContent = `page ${this.page + 1} of ${last + 1}`;
    this.back.disabled = this.page === 0;
    this.next.disabled = this.page >= last;
  }

  turn(by) {
    this.page += by;
    this.show();
    this.controls.scrollIntoView();
  }

  item(k) {
    const { ids, groups, arms, became, latency } = this.data;
    const { scores } = this.scores();
    const facts = arms.map((arm, a) => {
      const fate = FATES[became[a][k]];
      return `${arm} ${scores[a]?.[k] === null && fate !== "answered" ? fate : number(scores[a]?.[k] ?? null)}`;
    });
    if (latency[0][k] !== null) facts.push(`${number(latency[0][k])} s`);
    const gain = this.gain(k);
    const side = made("span", { className: "facts", textContent: facts.join("  \u00b7  ") });
    if (gain) side.append(made("span", { className: gain > 0 ? "better" : "worse", textContent: gain > 0 ? "  \u25b2 better" : "  \u25bc worse" }));
    const id = made("span", { className: "id" }, made("code", { textContent: ids[k] }), groups[k] ? ` ${groups[k]}` : "");
    const button = made("button", { type: "button", className: "item", ariaExpanded: "false" }, id, side);
    const excerpt = made("span", { className: "excerpt", dir: "auto" });
    button.append(excerpt);
    this.exchange(k).then(([input, , said]) => { excerpt.textContent = excerptOf(input, said); });
    const row = made("li", {}, button);
    button.addEventListener("click", () => this.drill(row, button, k));
    return row;
  }

  async drill(row, button, k) {
    const opened = button.ariaExpanded === "true";
    button.ariaExpanded = String(!opened);
    if (opened) return row.querySelector(".sides")?.remove();
    const [input, expected, said] = await this.exchange(k);
    const sides = made("div", { className: "sides" }, this.side("input", [input], expected));
    this.data.arms.forEach((arm, a) => sides.append(this.side(arm, said[a].map(told), "")));
    if (button.ariaExpanded === "true") row.append(sides);
  }

  side(name, texts, expected) {
    const shown = texts.length ? texts : ["(no reply)"];
    const one = made("section", {}, made("h5", { textContent: name }), ...shown.map((text) => made("pre", { dir: "auto", textContent: text })));
    if (expected) one.append(made("h5", { textContent: "expected" }), made("pre", { dir: "auto", textContent: expected }));
    return one;
  }

  async exchange(k) {
    const place = this.kept === null ? k : this.kept.get(k);
    if (place === undefined) return [CUT, "", this.data.arms.map(() => [["answered", CUT, "", null, null]])];
    const { part } = this.data;
    return (await this.texts(Math.floor(place / part)))[place % part];
  }

  async texts(part) {
    if (!this.parts.has(part)) {
      if (this.parts.size >= 20) this.parts.delete(this.parts.keys().next().value);  // what is looked at fits in memory
      this.parts.set(part, unpacked(`part-${this.scene}-${part}`));  // the promise: the rows of a page ask for a part at once
    }
    return this.parts.get(part);
  }
}

// Of a conversation, which is here as JSON, the last message.
function questionOf(input) {
  if (!input.startsWith("[")) return input;
  try {
    const last = JSON.parse(input).at(-1)?.content;
    return typeof last === "string" ? last : input;
  } catch { return input; }
}

function excerptOf(input, said) {
  if (input === CUT) return "";
  const flat = (text) => { const line = text.replace(/\s+/g, " ").trim(); return line.length > 120 ? `${line.slice(0, 119)}\u2026` : line; };
  const reply = flat(said[0]?.[0]?.[1] ?? "");
  return flat(questionOf(input)) + (reply ? `  \u2192  ${reply}` : "");
}

function told([became, text, detail, seconds, tokens]) {
  const facts = [became === "answered" ? "" : became, detail, seconds === null ? "" : `${number(seconds)} s`, tokens === null ? "" : `${tokens} tokens`];
  const about = facts.filter(Boolean).join(", ");
  return text && about ? `${text}\n\n(${about})` : text || `(${about})`;
}

for (const place of document.querySelectorAll(".explorer")) {
  const open = () => new Explorer(place, place.dataset.scene).open().catch((error) => { place.textContent = `The samples cannot be read: ${error}`; });
  const folded = place.closest("details:not([open])");  // archives inside a closed section are not unpacked
  if (folded) folded.addEventListener("toggle", open, { once: true }); else open();
}
