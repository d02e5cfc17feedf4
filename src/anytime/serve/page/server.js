// How the page asks the server. Events are read with fetch, not EventSource, which can send neither a body nor a token.

/** A refusal, with the server's own sentence. */
export class Refused extends Error {
  constructor(status, sentence) {
    super(sentence);
    this.status = status;
  }
}

let token = remembered();

export function useToken(value) {
  token = value;
  try {
    sessionStorage.setItem("token", value);
  } catch {
    // then it is asked for again after a reload
  }
}

function remembered() {
  try {
    return sessionStorage.getItem("token") ?? "";
  } catch {
    return "";
  }
}

async function open(path, { body, signal } = {}) {
  const headers = token ? { Authorization: `Bearer ${token}` } : {};
  const options = { signal, headers, cache: "no-store" };
  if (body !== undefined) {
    options.method = "POST";
    options.body = JSON.stringify(body);
    headers["Content-Type"] = "application/json";
  }
  const response = await fetch(path, options);
  if (!response.ok) throw new Refused(response.status, await sentence(response));
  return response;
}

async function sentence(response) {
  const text = await response.text();
  try {
    const { error, detail } = JSON.parse(text);
    const said = error ?? detail;
    if (typeof said === "string") return said;
    if (typeof said?.message === "string") return said.message;
  } catch {
    // not JSON: the status has to do
  }
  return `The server answered ${response.status} ${response.statusText}.`;
}

export const ask = async (path, body, signal) => (await open(path, { body, signal })).json();

/** Server-sent events, each as { event, data } with data parsed. Ends when the server ends. */
export async function* events(path, body, signal) {
  const response = await open(path, { body, signal });
  const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
  let rest = "";
  for (;;) {
    const { value, done } = await reader.read();
    if (done) return;
    const blocks = (rest + value).replaceAll("\r\n", "\n").split("\n\n");
    rest = blocks.pop();
    for (const block of blocks) {
      const message = parse(block);
      if (message) yield message;
    }
  }
}

function parse(block) {
  let event = "message";
  const data = [];
  for (const line of block.split("\n")) {
    if (line.startsWith("event:")) event = line.slice(6).trim();
    else if (line.startsWith("data:")) data.push(line.slice(5).trimStart());
  }
  return data.length ? { event, data: JSON.parse(data.join("\n")) } : null;
}
