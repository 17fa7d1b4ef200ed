// Asking the server. A page that was saved as a file has the answers with it, and asks nobody.
import { loadFile, site } from "./site";
import type { StreamEvent } from "./types";

export interface Saved {
  events: StreamEvent[];
  answers: Record<string, unknown>;
  view?: string; // how it was looked at, as an address says it
  tongue?: string;
  files?: Record<string, string>; // of a site: where large answers are
}

export class Failed extends Error {
  constructor(
    message: string,
    readonly status = 0, // 0: no answer came
    readonly reason = "", // as the server names it
    readonly values: Record<string, string | number> = {},
  ) {
    super(message);
  }
}

const embedded = document.getElementById("recording")?.textContent;
const NOTHING: Saved = { events: [], answers: {} }; // of a site, before one of its texts is chosen
export let saved: Saved | null = embedded ? (JSON.parse(embedded) as Saved) : site && NOTHING;

export function useRecording(given: Saved): void {
  saved = given;
}

// What is shown while a model is being loaded: recorded once, shipped with the page.
let example: Saved | null = null;

export function useExample(given: Saved | null): void {
  example = given;
}

export async function loadExample(): Promise<Saved> {
  return loadShipped<Saved>("example.json");
}

// A file that is shipped beside the page; a saved page has none.
export async function loadShipped<T>(name: string): Promise<T> {
  if (site) return loadFile<T>(name.replace(/json$/u, "js"), new Failed("missing"));
  if (saved) throw new Failed("saved");
  return (await (await reach(`static/${name}`, undefined)).json()) as T;
}

// Whether nobody is asked: all answers were recorded.
export function isRecorded(): boolean {
  return (saved ?? example) !== null;
}

let key = ""; // where the server wants one

export function useKey(given: string): void {
  key = given.trim();
}

// name: under which a saved page has the answer.
export async function ask<T>(name: string, path: string, body?: unknown, signal?: AbortSignal): Promise<T> {
  const known = saved ?? example;
  if (!known) return (await (await reach(path, body, signal)).json()) as T;
  if (name in known.answers) return known.answers[name] as T;
  const file = known.files?.[name];
  if (file) return loadFile<T>(file, new Failed("missing"));
  throw new Failed("saved");
}

async function reach(path: string, body: unknown, signal?: AbortSignal): Promise<Response> {
  const headers: Record<string, string> = key ? { Authorization: `Bearer ${key}` } : {};
  const post = { method: "POST", headers: { ...headers, "Content-Type": "application/json" }, body: JSON.stringify(body) };
  let response: Response;
  try {
    response = await fetch(path, body === undefined ? { headers, signal } : { ...post, signal });
  } catch (error) {
    if (signal?.aborted) throw error;
    throw new Failed("unreachable");
  }
  if (response.ok) return response;
  let told: { error: string; reason?: string; values?: Record<string, string | number> } = { error: `${response.status}` };
  try {
    told = (await response.json()) as typeof told;
  } catch {
    // a proxy may answer with a page
  }
  throw new Failed(told.error, response.status, told.reason, told.values);
}

// The events of a stream, one JSON object a line.
export async function* stream(path: string, body: unknown, signal: AbortSignal): AsyncGenerator<StreamEvent> {
  const response = await reach(path, body, signal);
  const reader = response.body!.pipeThrough(new TextDecoderStream()).getReader();
  let rest = "";
  for (;;) {
    let part: ReadableStreamReadResult<string>;
    try {
      part = await reader.read();
    } catch (error) {
      if (signal.aborted) throw error;
      throw new Failed("unreachable");
    }
    if (part.done) break;
    const lines = (rest + part.value).split("\n");
    rest = lines.pop()!;
    for (const line of lines) if (line) yield JSON.parse(line) as StreamEvent;
  }
}
