// Lets a page follow a stream of states that all pages share: a browser opens six connections to a server, and no more.

import { openStream } from "./stream.js";

export function follow(address, show) {
  if (!("SharedWorker" in window)) {
    openStream(address, show);
    return;
  }
  const worker = new SharedWorker(new URL("./stream.js", import.meta.url), { type: "module" });
  const { port } = worker;
  worker.onerror = () => openStream(address, show);
  port.onmessage = ({ data }) => show(data);
  port.postMessage(address);
  addEventListener("pagehide", () => port.postMessage(null));
  addEventListener("pageshow", (event) => { if (event.persisted) port.postMessage(address); });
}
