// A part of the page whose script is loaded when it is first shown.
import { signal } from "@preact/signals";
import type { ComponentType } from "preact";
import { words } from "../words";

export function later<P = object>(load: () => Promise<ComponentType<P>>): ComponentType<P> {
  const loaded = signal<ComponentType<P> | null>(null);
  const failed = signal(false);
  const begin = () => {
    failed.value = false;
    load().then(
      (part) => (loaded.value = part),
      () => (failed.value = true), // the server is gone, or is newer than this page
    );
  };
  let begun = false;
  return function Later(props: P) {
    const Part = loaded.value;
    if (Part) return <Part {...(props as P & object)} />;
    if (!begun) {
      begun = true;
      begin();
    }
    if (!failed.value) return <p role="status" class="faint" id="loading-part">{words.value.phases.loading}</p>;
    return (
      <p role="alert" class="alert" id="not-loaded">
        {words.value.partMissing}{" "}
        <button type="button" onClick={() => location.reload()}>{words.value.reload}</button>
      </p>
    );
  };
}
