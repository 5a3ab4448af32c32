#!/usr/bin/env bash
# Mermaid's timeline takes a period whose name begins with the word "title" as the title of the whole diagram.
#
# Stated: `title` gives the diagram its title, and a section lists its periods, each with its events. Expected: the period
# `title page : 1999` of a section is one of them, as `name : 1999` is. No error or warning says that it is gone.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
echo '{"type": "module"}' >package.json
npm install --silent --no-audit --no-fund mermaid@11.17.2 jsdom@26.1.0
cat >read.js <<'JAVASCRIPT'
import assert from "node:assert";
import { readFileSync } from "node:fs";
import { JSDOM } from "jsdom";

const page = new JSDOM("<body></body>");
Object.assign(globalThis, { window: page.window, document: page.window.document });
const { default: mermaid } = await import("mermaid");

async function read(name) {
  const text = `timeline\n  title History of a book\n  section Print\n    cover : 1998\n    ${name} : 1999\n`;
  await mermaid.parse(text);
  const { db } = await mermaid.mermaidAPI.getDiagramFromText(text);
  const seen = { title: db.getCommonDb().getDiagramTitle(), periods: db.getTasks().map((period) => period.task.trim()) };
  console.log(`period "${name}":`, JSON.stringify(seen));
  return seen;
}

console.log("mermaid", JSON.parse(readFileSync("node_modules/mermaid/package.json")).version);
assert.deepEqual(await read("name"), { title: "History of a book", periods: ["cover", "name"] });
assert.deepEqual(await read("title page"), { title: "page : 1999", periods: ["cover"] });
JAVASCRIPT
node read.js
echo "seen: the period is gone, and the diagram has its name as title"
