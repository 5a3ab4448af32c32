// A list of any length in a scrolled region: only the rows in view, and some around them, are elements.
import { clamp } from "./view.js";

// Chromium cuts elements at 33.5 million pixels of the screen, which are 8.4 million at a zoom of 400 %. Firefox at 17.9 million.
const MOST_PX = 8_000_000;
// A longer list is scrolled in steps of more rows in its middle; near its ends, and by keys and wheel, row by row.
const EDGE_PX = 100_000;
const AROUND = 12;
const SETTLED_MS = 150;

// A place on one length as a place on another: near its ends the distance from them is the same.
function scale(place, length, other) {
  if (length === other || place <= EDGE_PX) return place;
  if (length - place <= EDGE_PX) return other - length + place;
  return EDGE_PX + ((place - EDGE_PX) * (other - 2 * EDGE_PX)) / (length - 2 * EDGE_PX);
}

export class VirtualRows {
  // `draw(place)` returns the element of a row, and `seen(first, last)` hears which rows are there.
  constructor(region, draw, seen) {
    Object.assign(this, { region, draw, seen, total: 0, row: 1, top: 0, scrolled: 0, current: 0, elements: new Map() });
    this.body = region.querySelector(".rows");
    region.addEventListener("scroll", () => this.follow());
    new ResizeObserver(() => this.resize()).observe(region);
  }

  // Shows a new list, with the row at a place in its middle.
  open(total, place) {
    this.total = total;
    this.removeUnless(() => false);
    this.current = clamp(place, total - 1);
    this.measure();
    this.moveTo(place * this.row - (this.view - this.row) / 2);
  }

  // The same list, in which other rows may be there now.
  change(total) {
    this.total = total;
    this.current = clamp(this.current, total - 1);
    this.removeUnless((place) => place < total);
    this.measure();
    this.moveTo(this.top);
  }

  measure() {
    const head = this.body.offsetTop;
    this.row = Math.max(1, this.body.firstElementChild?.offsetHeight ?? this.probe());
    this.view = this.region.clientHeight - head;
    this.whole = this.total * this.row;
    this.height = Math.min(this.whole, MOST_PX);
    this.body.style.height = `${this.height}px`;
  }

  probe() {
    const element = this.body.appendChild(this.draw(0));
    const height = element.offsetHeight;
    element.remove();
    return height;
  }

  // Rows are higher in a narrow region: the first one in view stays.
  resize() {
    const first = this.top / this.row;
    this.measure();
    this.moveTo(first * this.row);
  }

  get most() { return Math.max(0, this.whole - this.view); }
  get mostScrolled() { return Math.max(0, this.height - this.view); }
  get isCompressed() { return this.whole > this.height; }

  moveTo(top) {
    this.top = clamp(top, this.most);
    this.settle();
    this.render();
  }

  // Puts the scroll bar where the rows in view are; they stay where they are.
  settle() {
    this.region.scrollTop = scale(this.top, this.most, this.mostScrolled);
    this.scrolled = this.region.scrollTop;
  }

  follow() {
    const { scrollTop } = this.region;
    const by = scrollTop - this.scrolled;
    if (by === 0) return;
    const isStep = this.isCompressed && Math.abs(by) < 2 * this.view;
    this.top = isStep ? clamp(this.top + by, this.most) : scale(scrollTop, this.mostScrolled, this.most);
    this.scrolled = scrollTop;
    clearTimeout(this.settling);
    if (isStep) this.settling = setTimeout(() => { this.settle(); this.render(); }, SETTLED_MS);
    this.render();
  }

  get first() { return Math.max(0, Math.floor(this.top / this.row)); }
  get last() { return Math.min(this.total - 1, Math.floor((this.top + this.view) / this.row)); }

  render() {
    const places = this.places();
    this.removeUnless((place) => places.includes(place));
    let after = null;
    for (const place of places.reverse()) {
      const element = this.elements.get(place) ?? this.add(place, after);
      element.style.top = `${this.isCompressed ? this.scrolled + place * this.row - this.top : place * this.row}px`;
      element.tabIndex = place === this.current ? 0 : -1;
      after = element;
    }
    this.seen(this.first, this.last);
  }

  // The row with the focus stays an element wherever the list is scrolled: the next key goes on from there.
  places() {
    const [from, to] = [Math.max(0, this.first - AROUND), Math.min(this.total - 1, this.last + AROUND)];
    const places = Array.from({ length: Math.max(0, to - from + 1) }, (_, k) => from + k);
    if (this.total && this.current < from) places.unshift(this.current);
    if (this.total && this.current > to) places.push(this.current);
    return places;
  }

  add(place, after) {
    const element = this.draw(place);
    this.elements.set(place, element);
    return this.body.insertBefore(element, after);
  }

  removeUnless(stays) {
    for (const [place, element] of this.elements) {
      if (stays(place)) continue;
      element.remove();
      this.elements.delete(place);
    }
  }

  // Draws rows again whose content is another one now; the elements, and with them the focus, stay.
  redraw(first, last) {
    for (const [place, element] of this.elements) {
      if (place >= first && place <= last) element.replaceChildren(...this.draw(place).childNodes);
    }
  }

  get focused() { return this.elements.get(this.current); }

  // Moves the focus to a row, and the row into view.
  focus(place) {
    if (!this.total) return;
    this.current = clamp(place, this.total - 1);
    const at = this.current * this.row;
    const low = at + this.row - this.view;
    if (at < this.top || low > this.top) this.moveTo(at < this.top ? at : low); else this.render();
    this.focused.focus({ preventScroll: true });
    // At a high zoom the region itself may be out of view.
    this.focused.scrollIntoView({ block: "nearest", behavior: "instant" });
  }

  get page() { return Math.max(1, Math.floor(this.view / this.row) - 1); }
}
