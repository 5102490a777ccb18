// Translates texts, sentence by sentence, and files, with fetch: in Node 18 or later, and in a page.
//
//     node docs/examples/client.mjs http://127.0.0.1:8000 en fr "Hello. How are you?" report.docx
//
// Copy what you need: `send` retries and throws, `translate` takes several texts, `stream` yields sentences as they are
// done, `translateFile` uploads. With API keys, add `Authorization: "Bearer KEY"` to the headers; never in a public page.

// Over a rate, and overloaded or not ready. Any other error stays the same if the request is repeated.
const RETRIED = [429, 503];
const ATTEMPTS = 5;

// An error of the service (RFC 9457): `fields` has type, title, status, detail, and errors by field.
export class Problem extends Error {
  constructor(fields) {
    super(`${fields.title}: ${fields.detail}`);
    this.fields = fields;
  }
}

export const wait = (seconds) => new Promise((done) => setTimeout(done, 1000 * seconds));

// Posts an object, as JSON, or a FormData; waits and retries where the service says so. Throws Problem.
export async function send(url, content, { signal, sleep = wait } = {}) {
  const form = content instanceof FormData;
  const request = {
    method: "POST",
    headers: form ? {} : { "Content-Type": "application/json" },
    body: form ? content : JSON.stringify(content),
    signal,
  };
  for (let attempt = 1; ; attempt++) {
    const response = await fetch(url, request);
    if (response.ok) return response;
    if (!RETRIED.includes(response.status) || attempt === ATTEMPTS) {
      const type = response.headers.get("Content-Type");
      if (type === "application/problem+json") throw new Problem(await response.json());
      throw new Error(`${response.status} ${response.statusText}`); // from a proxy in between
    }
    await response.body?.cancel();
    await sleep(Number(response.headers.get("Retry-After") ?? 1));
  }
}

// The translations of `texts`. Throws Problem for the first that has none; the response has those of the others.
export async function translate(url, texts, source, target, options) {
  const response = await send(`${url}/translate`, { text: texts, source, target }, options);
  return (await response.json()).translations.map(({ text, error }) => {
    if (error) throw new Problem(error);
    return text;
  });
}

// The translation in parts, a sentence each with what precedes it, as soon as it is done.
export async function* stream(url, text, source, target, options) {
  const response = await send(`${url}/translate/stream`, { text, source, target }, options);
  const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
  try {
    let buffer = "";
    for (;;) {
      const { done, value } = await reader.read();
      if (done) throw new Error("the stream ended without `done`");
      const events = (buffer + value).split("\n\n");
      buffer = events.pop(); // the beginning of an event, whose rest is still to come
      for (const event of events) {
        const [, name, data] = event.match(/^event: (.*)\ndata: (.*)$/);
        if (name === "part") yield JSON.parse(data).text;
        if (name === "error") throw new Problem(JSON.parse(data));
        if (name === "done") return;
      }
    }
  } finally {
    await reader.cancel(); // the service stops translating if this comes early
  }
}

// The translation of a document, a Blob or the File of an <input type="file">, as a Blob.
export async function translateFile(url, file, name, source, target, options) {
  const form = new FormData();
  form.append("source", source);
  form.append("target", target);
  form.append("file", file, name);
  return (await send(`${url}/translate/file`, form, options)).blob();
}

async function main([url, source, target, ...things]) {
  const { existsSync } = await import("node:fs");
  const { readFile, writeFile } = await import("node:fs/promises");
  const { basename, extname } = await import("node:path");
  for (const thing of things) {
    if (existsSync(thing)) {
      const translated = await translateFile(url, new Blob([await readFile(thing)]), basename(thing), source, target);
      const written = thing.slice(0, thing.length - extname(thing).length) + `.${target}${extname(thing)}`;
      await writeFile(written, Buffer.from(await translated.arrayBuffer()));
      console.log(written);
    } else {
      for await (const part of stream(url, thing, source, target)) process.stdout.write(part);
      console.log();
    }
  }
}

if (globalThis.process?.argv[1]?.endsWith("client.mjs")) {
  main(process.argv.slice(2)).catch((error) => {
    console.error(error.message);
    process.exitCode = 1;
  });
}
