// Two versions of one translation beside one another, and which two.
import { useEffect, useState } from "preact/hooks";
import { leave } from "../answers";
import { saved } from "../api";
import { useTextChoice } from "../choice";
import { Came } from "../parts/came";
import type { Sentence } from "../recording";
import { site } from "../site";
import * as s from "../state";
import { open } from "../translate";
import {
  type NamedModel, type PartChoice, type Version, WAYS, type Way, comparableModels, eventsOfVersion, readPart, recordingOf, writePart,
} from "../versions";
import { words } from "../words";
import { comparing } from "../words/comparing";
import { Film } from "./compare-film";
import { Sides } from "./compare-sides";

export function ComparePanel() {
  const t = comparing.value.compare;
  const sentence = s.sentence.value!;
  s.beat.value;
  const [chosen, choose] = useTextChoice<Way>("versus", s.forcedWords.value.length ? "forced" : "text");
  const way = WAYS.includes(chosen) ? chosen : "text";
  const masked = s.readsOnly(s.model.value) || s.writesAtOnce(s.model.value);
  const offered = WAYS.filter((one) => one !== "forced" || !masked);
  return (
    <>
      <p class="faint">{t.intro}</p>
      <fieldset class="choice">
        <legend class="small faint">{t.versus}</legend>
        {offered.map((one) => (
          <label key={one}>
            <input type="radio" name="versus" value={one} checked={way === one} onChange={() => choose(one)} />
            <span>{t.ways[one]}</span>
          </label>
        ))}
      </fieldset>
      {!sentence.found ? <p class="faint">{words.value.phases.loading}</p> : way === "film" ? <Film sentence={sentence} /> : <Versus way={way} sentence={sentence} />}
    </>
  );
}

function Versus({ way, sentence }: { way: Exclude<Way, "film">; sentence: Sentence }) {
  const t = comparing.value.compare;
  const [text, setText] = useTextChoice<string>("other-text", "");
  const [model, setModel] = useTextChoice<string>("other-model", "");
  const [part, setPart] = useTextChoice<string>("part", "");
  const version: Version = { way, text, model, part };
  const first = s.first.value?.sentences[s.sentenceNumber.value];
  const models = comparableModels();
  return (
    <>
      {way === "text" && (site ? <RecordedText text={text} own={sentence.text} choose={setText} /> : <OtherText text={text || sentence.text} choose={setText} />)}
      {way === "model" && models.length > 1 && <Models models={models} other={model} choose={setModel} />}
      {way === "part" && <Part name={part} choose={setPart} />}
      {way === "text" && (text && text !== sentence.text ? <Other sentence={sentence} version={version} /> : !site && <p class="note">{t.needsText}</p>)}
      {way === "forced" && (first && first !== sentence ? <Sides sentence={sentence} version={version} other={first} text={first.result} /> : <p class="note">{saved ? t.needsServer : t.needsForced}</p>)}
      {way === "model" && models.length < 2 && !model && <p class="note">{saved ? t.noOtherSaved : t.noOther}</p>}
      {way === "model" && models.length > 1 && !model && <p class="note">{t.needsModel}</p>}
      {way === "model" && model && <Other sentence={sentence} version={version} />}
      {way === "part" && (part ? <Other sentence={sentence} version={version} /> : <p class="note">{t.needsPart}</p>)}
    </>
  );
}

// What the other version makes of it, once it is there.
function Other({ sentence, version }: { sentence: Sentence; version: Version }) {
  const t = comparing.value.compare;
  const asked = eventsOfVersion(sentence, version);
  const events = asked.value;
  useEffect(() => () => leave(asked), [asked]);
  if (!events) return <Came sentence={sentence} asked={asked} missing={t.needsServer} />;
  const recording = recordingOf(events);
  const other = recording.sentences[0];
  if (!other?.found) return <p class="note">{words.value.noDecoder}</p>;
  return (
    <>
      {recording.sentences.length > 1 && <p class="note">{t.firstSentence}</p>}
      <Sides sentence={sentence} version={version} other={other} text={recording.text} key={JSON.stringify(version)} />
    </>
  );
}

// A site has the texts that were recorded.
function RecordedText({ text, own, choose }: { text: string; own: string; choose: (text: string) => void }) {
  const t = comparing.value.compare;
  const texts = site!.texts.filter((one) => one.model === s.chosenModel.value && one.text !== own);
  return (
    <label class="recorded">
      <span class="small faint">{t.otherText}</span>
      <select id="other-text" value={text} onChange={(event) => choose(event.currentTarget.value)}>
        <option value="">{t.choose}</option>
        {texts.map((one) => <option value={one.text} key={one.file}>{one.text}</option>)}
      </select>
    </label>
  );
}

function OtherText({ text, choose }: { text: string; choose: (text: string) => void }) {
  const t = comparing.value.compare;
  const [typed, type] = useState(text);
  const go = () => choose(typed.trim());
  return (
    <form
      class="row other-text"
      onSubmit={(event) => {
        event.preventDefault();
        go();
      }}
    >
      <label class="grows">
        <span class="small faint">{t.otherText}</span>
        <textarea
          id="other-text"
          rows={2}
          dir="auto"
          value={typed}
          onInput={(event) => type(event.currentTarget.value)}
          onKeyDown={(event) => {
            if (event.key !== "Enter" || !(event.ctrlKey || event.metaKey)) return;
            event.preventDefault();
            go();
          }}
        />
      </label>
      <button type="submit" class="main" id="compare-go">{t.go}</button>
    </form>
  );
}

function Models({ models, other, choose }: { models: NamedModel[]; other: string; choose: (name: string) => void }) {
  const t = comparing.value.compare;
  return (
    <div class="row">
      <label>
        {t.firstModel}{" "}
        <select id="this-model" value={s.chosenModel.value} disabled={saved !== null} onChange={(event) => void open(event.currentTarget.value)}>
          <ModelOptions models={models} />
        </select>
      </label>
      <label>
        {t.secondModel}{" "}
        <select id="other-model" value={other} onChange={(event) => choose(event.currentTarget.value)}>
          <option value="">{t.choose}</option>
          {other && !models.some((one) => one.name === other) && <option value={other}>{other}</option>}
          <ModelOptions models={models} />
        </select>
      </label>
    </div>
  );
}

function ModelOptions({ models }: { models: NamedModel[] }) {
  const t = comparing.value.compare;
  const whole = models.filter((one) => !one.of);
  return (
    <>
      <optgroup label={t.models}>
        {whole.map((one) => <option value={one.name} key={one.name}>{one.name}</option>)}
      </optgroup>
      {whole.filter((one) => one.checkpoints?.length).map((one) => (
        <optgroup label={t.checkpointsOf(one.name)} key={one.name}>
          {models.filter((checkpoint) => checkpoint.of === one.name).map(({ name, checkpoint }) => (
            <option value={name} key={name}>{t.checkpoint(String(checkpoint!.step), checkpoint!.loss?.toFixed(3) ?? "")}</option>
          ))}
        </optgroup>
      ))}
    </>
  );
}

function Part({ name, choose }: { name: string; choose: (name: string) => void }) {
  const t = comparing.value.compare;
  const all = words.value;
  const info = s.model.value!;
  const sides = (["encoder", "decoder"] as const).filter((side) => info.config[side].layers > 0);
  const read = readPart(name);
  const part: PartChoice = read && sides.includes(read.side) ? read : { side: sides.at(-1)!, layer: 0, sub: "", head: -1 };
  const change = (more: Partial<PartChoice>) => {
    const next = { ...part, ...more };
    next.layer = Math.min(next.layer, info.config[next.side].layers - 1);
    if (next.side === "encoder" && next.sub === "cross") next.sub = "self";
    if (next.head >= headsOf(next)) next.head = -1;
    choose(writePart(next));
  };
  const subs = ["self", ...(part.side === "decoder" && info.config.encoder.layers ? ["cross"] : []), "feedforward"] as const;
  const heads = headsOf(part);
  return (
    <>
      <div class="row" id="part">
        <label>
          {t.side}{" "}
          <select id="part-side" value={name ? part.side : ""} onChange={(event) => event.currentTarget.value && change({ side: event.currentTarget.value as PartChoice["side"] })}>
            {!name && <option value="">{t.choose}</option>}
            {sides.map((one) => <option value={one} key={one}>{all[one]}</option>)}
          </select>
        </label>
        <label>
          {t.layer}{" "}
          <select id="part-layer" value={part.layer} disabled={!name} onChange={(event) => change({ layer: Number(event.currentTarget.value) })}>
            {Array.from({ length: info.config[part.side].layers }, (_, n) => <option value={n} key={n}>{n + 1}</option>)}
          </select>
        </label>
        <label>
          {t.sub}{" "}
          <select id="part-sub" value={part.sub} disabled={!name} onChange={(event) => change({ sub: event.currentTarget.value as PartChoice["sub"] })}>
            <option value="">{t.wholeLayer}</option>
            {subs.map((one) => <option value={one} key={one}>{t.subs[one as "self"]}</option>)}
          </select>
        </label>
        {heads > 1 && (
          <label>
            {t.head}{" "}
            <select id="part-head" value={part.head} onChange={(event) => change({ head: Number(event.currentTarget.value) })}>
              <option value={-1}>{t.allHeads}</option>
              {Array.from({ length: heads }, (_, n) => <option value={n} key={n}>{n + 1}</option>)}
            </select>
          </label>
        )}
      </div>
      <p class="faint small">{t.partTrap}</p>
    </>
  );
}

function headsOf({ side, layer, sub }: PartChoice): number {
  if (sub !== "self" && sub !== "cross") return 0;
  return s.partOf(s.model.value!, sub === "cross" ? "cross" : side, layer).heads ?? 0;
}
