// What one gives to others: the page as a file, a link to what is shown, the code that shows it in a page of theirs.
import { useState } from "preact/hooks";
import { saved } from "../api";
import { download, pageOf } from "../save-page";
import { site } from "../site";
import * as s from "../state";
import { tellView } from "../url";
import { tongue, words } from "../words";

const HEIGHT = 640; // pixels of a frame

export function HandOut() {
  const t = words.value.handOut;
  const [failed, setFailed] = useState(false);
  const [frame, setFrame] = useState("");
  s.beat.value;
  if ((saved && !site) || s.isExample.value || s.isEmbedded.value || !s.recording.value?.ended) return null;
  const name = `headway-${s.panel.value}.html`;
  const save = async () => {
    setFailed(false);
    try {
      download(await pageOf(), name);
      setFrame(frameOf(`${name}#embed`));
    } catch {
      setFailed(true); // the server is gone
    }
  };
  const embed = () => {
    const view = tellView();
    view.set("embed", "1");
    view.set("lang", tongue.value);
    setFrame(frameOf(`${location.href.split("#")[0]}#${view}`));
  };
  return (
    <section class="hand-out" aria-label={t.title}>
      <p class="row">
        {site ? (
          <button type="button" id="embed" onClick={embed}>{t.embed}</button>
        ) : (
          <button type="button" id="save-html" title={t.savePageNote} onClick={() => void save()}>{t.savePage}</button>
        )}
        <CopyButton label={t.copyLink} text={() => location.href} />
        {failed && <span role="alert" class="alert" id="not-saved">{words.value.notSaved}</span>}
      </p>
      {frame && (
        <>
          <label class="snippet">
            {site ? t.embedSite : t.embedFile(name)}
            <textarea id="snippet" readOnly rows={3} value={frame} />
          </label>
          <CopyButton label={t.copySnippet} text={() => frame} />
        </>
      )}
    </section>
  );
}

function frameOf(source: string): string {
  const escaped = (text: string) => text.replace(/[&<>"]/gu, (c) => `&#${c.codePointAt(0)};`);
  const title = `${words.value.panels[s.panel.value]}: ${s.text.value}`;
  return `<iframe src="${escaped(source)}" title="${escaped(title)}" width="100%" height="${HEIGHT}" loading="lazy" style="border: 1px solid #ccc"></iframe>`;
}

function CopyButton({ label, text }: { label: string; text: () => string }) {
  const [copied, setCopied] = useState(false);
  return (
    <button type="button" onClick={() => void navigator.clipboard?.writeText(text()).then(() => setCopied(true))}>
      {copied ? words.value.copied : label}
    </button>
  );
}
