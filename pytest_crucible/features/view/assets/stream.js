// Streams of states from the server, opened again when they are lost. As a shared worker it has one for all pages of an address.

const AGAIN_MS = 1_000;
// The server sends something every five seconds.
const SILENT_MS = 15_000;

// Passes each state on; `{lost}` when the server is gone, with the status that it answers then, or 0. Returns what closes it.
function openStream(address, show) {
  let source, timer;

  function open() {
    source = new EventSource(address);
    source.onmessage = ({ data }) => { wait(); show(JSON.parse(data)); };
    source.addEventListener("beat", wait);
    source.onerror = lose;
    wait();
  }

  function wait() {
    clearTimeout(timer);
    timer = setTimeout(lose, SILENT_MS);
  }

  async function lose() {
    close();
    const stopped = source;
    const status = await askStatus(address);
    if (source !== stopped) return;
    show({ lost: status });
    timer = setTimeout(status === 200 ? open : lose, AGAIN_MS);
  }

  function close() {
    clearTimeout(timer);
    source.close();
  }

  open();
  return () => { close(); source = null; };
}

async function askStatus(address) {
  try {
    return (await fetch(address, { method: "HEAD" })).status;
  } catch {
    return 0;
  }
}

// Lets a page follow a stream that all pages share: a browser opens six connections to a server, and no more.
export function follow(address, show) {
  if (!("SharedWorker" in window)) return openStream(address, show);
  const worker = new SharedWorker(import.meta.url, { type: "module" }), { port } = worker;
  worker.onerror = () => openStream(address, show);
  port.onmessage = ({ data }) => show(data);
  port.postMessage(address);
  addEventListener("pagehide", () => port.postMessage(null));
  addEventListener("pageshow", (event) => { if (event.persisted) port.postMessage(address); });
}

const shared = new Map();

function join(port, address) {
  if (!shared.has(address)) {
    const stream = { ports: new Set(), state: null };
    stream.close = openStream(address, (state) => {
      stream.state = state;
      for (const each of stream.ports) each.postMessage(state);
    });
    shared.set(address, stream);
  }
  const stream = shared.get(address);
  stream.ports.add(port);
  if (stream.state) port.postMessage(stream.state);
}

function leave(port) {
  for (const [address, stream] of shared) {
    if (stream.ports.delete(port) && !stream.ports.size) {
      stream.close();
      shared.delete(address);
    }
  }
}

if ("SharedWorkerGlobalScope" in globalThis) {
  globalThis.onconnect = ({ ports: [port] }) => {
    port.onmessage = ({ data }) => (data === null ? leave(port) : join(port, data));
  };
}
