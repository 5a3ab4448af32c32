// Rows of a list of samples, fetched in blocks when they come into view.
import { request } from "./view.js";

const BLOCK = 100;
const MOST_BLOCKS = 30;
const AHEAD = 40;
const EVERY_MS = 60;

export async function fetchJson(address, signal) {
  return (await request(address, { signal })).json();
}

export class SampleRows {
  // `address(values)` returns that of rows; `arrived(first, last)` hears of those that are there.
  constructor(address, arrived, failed) {
    Object.assign(this, { address, arrived, failed, blocks: new Map(), requests: new Map() });
  }

  // Puts the rows of an answer, which may begin anywhere, in place of all others.
  open(answer) {
    this.abort();
    this.blocks.clear();
    this.total = answer.total;
    for (let start = Math.ceil(answer.from / BLOCK) * BLOCK; start < answer.from + answer.rows.length; start += BLOCK) {
      const rows = answer.rows.slice(start - answer.from, start - answer.from + BLOCK);
      if (rows.length === Math.min(BLOCK, this.total - start)) this.blocks.set(start / BLOCK, rows);
    }
    this.extra = { from: answer.from, rows: answer.rows };
  }

  at(place) {
    return this.blocks.get(Math.floor(place / BLOCK))?.[place % BLOCK] ?? this.extra?.rows[place - this.extra.from];
  }

  // Requests the rows in view and some around them, but not each that scrolling passes.
  show(first, last) {
    this.inView = [Math.max(0, first - AHEAD), Math.min(this.total - 1, last + AHEAD)].map((place) => Math.floor(place / BLOCK));
    this.waiting ??= setTimeout(() => this.request(), EVERY_MS);
  }

  request() {
    this.waiting = undefined;
    const [first, last] = this.inView;
    for (const [block, request] of this.requests) if (block < first || block > last) { request.abort(); this.requests.delete(block); }
    for (let block = first; block <= last; block += 1) if (!this.blocks.has(block) && !this.requests.has(block)) this.load(block);
  }

  async load(block) {
    const request = new AbortController();
    this.requests.set(block, request);
    try {
      const answer = await fetchJson(this.address({ from: block * BLOCK, count: BLOCK }), request.signal);
      this.blocks.set(block, answer.rows);
      if (this.blocks.size > MOST_BLOCKS) this.blocks.delete(this.blocks.keys().next().value);
      this.arrived(block * BLOCK, block * BLOCK + answer.rows.length - 1);
    } catch (error) {
      if (error.name !== "AbortError") this.failed(error);
    } finally {
      if (this.requests.get(block) === request) this.requests.delete(block);
    }
  }

  abort() {
    clearTimeout(this.waiting);
    this.waiting = undefined;
    for (const request of this.requests.values()) request.abort();
    this.requests.clear();
  }
}
