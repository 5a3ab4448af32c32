// Rows of a list of samples, fetched in blocks when they come into view.

const BLOCK = 100;
const MOST_BLOCKS = 30;
const STILL_MS = 40;

export async function fetchJson(address, signal) {
  const response = await fetch(address, { signal });
  const isJson = response.headers.get("content-type")?.startsWith("application/json");
  const document = isJson ? await response.json() : {};
  if (!response.ok) throw new Error(document.error ?? `the server answers ${response.status}: reload this page`);
  return document;
}

export class SampleRows {
  // `address(values)` returns that of rows; `arrived(first, last, answer)` hears of those that are there.
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

  // Requests the rows that are in view once scrolling is still, and gives up those that are not any more.
  show(first, last) {
    clearTimeout(this.waiting);
    const blocks = [];
    for (let block = Math.floor(first / BLOCK); block <= Math.floor(last / BLOCK); block += 1) blocks.push(block);
    for (const [block, request] of this.requests) if (!blocks.includes(block)) { request.abort(); this.requests.delete(block); }
    const lacking = blocks.filter((block) => !this.blocks.has(block) && !this.requests.has(block));
    if (lacking.length) this.waiting = setTimeout(() => lacking.forEach((block) => this.load(block)), STILL_MS);
  }

  async load(block) {
    const request = new AbortController();
    this.requests.set(block, request);
    try {
      const answer = await fetchJson(this.address({ from: block * BLOCK, count: BLOCK }), request.signal);
      this.blocks.set(block, answer.rows);
      if (this.blocks.size > MOST_BLOCKS) this.blocks.delete(this.blocks.keys().next().value);
      this.arrived(block * BLOCK, block * BLOCK + answer.rows.length - 1, answer);
    } catch (error) {
      if (error.name !== "AbortError") this.failed(error);
    } finally {
      if (this.requests.get(block) === request) this.requests.delete(block);
    }
  }

  abort() {
    clearTimeout(this.waiting);
    for (const request of this.requests.values()) request.abort();
    this.requests.clear();
  }
}
