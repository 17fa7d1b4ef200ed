// A site of files, as `headway page --static` writes it: recorded texts, each in scripts of its own. A page that was opened
// as a file may load scripts and fetch nothing.
import type { Objective } from "./types";

export interface RecordedText {
  file: string;
  model: string;
  kind: Objective;
  pair: string; // "en de"
  text: string;
}

export interface Site {
  texts: RecordedText[];
}

declare global {
  interface Window {
    headwayFile?: (name: string, content: unknown) => void;
  }
}

const described = document.getElementById("site")?.textContent;
export const site: Site | null = described ? (JSON.parse(described) as Site) : null;

const waiting = new Map<string, (content: unknown) => void>();
if (site) window.headwayFile = (name, content) => waiting.get(name)?.(content);

// Each file calls headwayFile with its name and what is in it. missing: what to fail with.
export function loadFile<T>(name: string, missing: Error): Promise<T> {
  return new Promise((done, fail) => {
    const script = document.createElement("script");
    waiting.set(name, (content) => done(content as T));
    script.src = name;
    script.onload = () => script.remove();
    script.onerror = () => fail(missing);
    document.head.append(script);
  });
}
