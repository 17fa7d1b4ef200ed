// What could have stood at each place, how sure the model was, and what happens if it must say something else.
import { placesOf } from "../answers";
import { saved } from "../api";
import { useChoice } from "../choice";
import { css, inkOn, weightColours } from "../colours";
import { percent } from "../format";
import { isSpecial, shown } from "../pieces";
import type { Sentence } from "../recording";
import * as s from "../state";
import { later } from "../parts/later";
import { Waiting } from "../parts/waiting";
import { force } from "../translate";
import type { Place, Places } from "../types";
import { words } from "../words";

const Guesses = later(async () => (await import("../panels")).Guesses);

export function Probabilities() {
  const t = words.value;
  const [tenths, setTenths] = useChoice("temperature", 10);
  const temperature = Math.min(Math.max(Math.round(tenths), 1), 20) / 10;
  const sentence = s.sentence.value!;
  s.beat.value;
  if (s.readsOnly(s.model.value)) return <Guesses />;
  const asked = placesOf(sentence, temperature);
  const known = asked.value;
  const at = s.shownStep.value - 1;
  const place = known?.places[at] ?? streamed(sentence, at);
  return (
    <>
      <Strip sentence={sentence} places={known} />
      {!place ? (
        at < 0 ? <p class="faint">{t.firstStep}</p> : <Waiting sentence={sentence} asked={asked} />
      ) : sentence.sees(at) ? (
        <p class="note" id="seen">{t.seenHere(shown(sentence.targetPieces[at]!))}</p>
      ) : (
        <>
          <h3>{t.likelyAt(at + 1)}</h3>
          {(!isFixed() || temperature !== 1) && (
            <label class="row">
              {t.temperature}
              <input
                id="temperature"
                type="range"
                min={0.1}
                max={2}
                step={0.1}
                value={temperature}
                disabled={isFixed()}
                onChange={(event) => setTenths(Math.round(10 * Number(event.currentTarget.value)))}
              />
              <output class="count">{temperature.toFixed(1)}</output>
            </label>
          )}
          <Bars place={place} take={canForce(sentence, at) ? (id) => void force(s.recording.value!.sentences.indexOf(sentence), at, id) : null} taken={t.taken} />
          {!s.isExample.value && <p class="faint">{s.writesAtOnce(s.model.value) ? t.atOnce : saved ? t.handOut.needsServer : s.model.value?.kind === "causal" ? t.clickHintCausal : t.clickHint}</p>}
          <Facts place={place} />
        </>
      )}
    </>
  );
}

// Nobody is there who could be asked for more.
function isFixed(): boolean {
  return saved !== null || s.isExample.value;
}

// While the stream runs, what it told of the place.
function streamed(sentence: Sentence, at: number): Place | undefined {
  const told = sentence.likely[at];
  return told && { ...told.top, entropy: told.entropy, chosen: sentence.target[at] ?? null, probability: null, rank: null };
}

function Strip({ sentence, places }: { sentence: Sentence; places: Places | null }) {
  const t = words.value;
  const colours = weightColours.value;
  s.beat.value;
  return (
    <div class="strip" role="group" aria-label={t.strip}>
      {sentence.written.slice(0, s.stepChosen.value ? s.shownStep.value : undefined).map((piece, n) => {
        const probability = sentence.certaintyOf(n) ?? places?.places[n]?.probability;
        const colour = colours[Math.round(255 * 0.45 * (probability ?? 0))]!;
        return (
          <button
            type="button"
            key={n}
            aria-pressed={n === s.shownStep.value - 1}
            title={probability == null ? undefined : percent(probability)}
            style={{ background: css(colour), color: inkOn(colour) }}
            onClick={() => s.goTo(n + 1)}
          >
            {shown(piece)}
          </button>
        );
      })}
    </div>
  );
}

// Not in what a language model was given to go on from.
function canForce(sentence: Sentence, at: number): boolean {
  if (isFixed() || !sentence.found || s.writesAtOnce(s.model.value)) return false;
  const first = (s.first.value ?? s.recording.value)?.sentences[0];
  return s.model.value?.kind !== "causal" || at >= (first?.forced ?? 0);
}

// take: what a click on a token does; null: nothing.
export function Bars({ place, take, taken: takenAs }: { place: Place; take: ((id: number) => void) | null; taken: string }) {
  const t = words.value;
  return (
    <div class="bars" id="bars">
      {place.ids.map((id, n) => {
        const piece = place.pieces[n]!;
        const taken = id === place.chosen;
        const mark = isSpecial(piece);
        return (
          <button
            type="button"
            key={id}
            data-id={id}
            disabled={!take || taken || mark}
            title={taken ? takenAs : !take ? undefined : mark ? t.cannotForce : t.useInstead(shown(piece))}
            onClick={() => take?.(id)}
          >
            <span class="piece">{shown(piece)}</span>
            <span class="bar-line"><span style={{ width: `${100 * place.probabilities[n]!}%` }} /></span>
            <span class="number">{percent(place.probabilities[n]!)}</span>
            <span class="tag faint">{taken ? `✓ ${takenAs}` : ""}</span>
          </button>
        );
      })}
    </div>
  );
}

export function Facts({ place, rankIs = words.value.rank }: { place: Place; rankIs?: string }) {
  const t = words.value;
  const bits = place.entropy / Math.LN2;
  return (
    <dl class="facts">
      <dt>{t.entropy}</dt>
      <dd id="entropy">{t.entropyExplained(bits.toFixed(2), (2 ** bits).toFixed(1))}</dd>
      {place.rank !== null && (
        <>
          <dt>{rankIs}</dt>
          <dd>{place.rank}</dd>
          <dt>{t.probability}</dt>
          <dd>{percent(place.probability!)}</dd>
        </>
      )}
    </dl>
  );
}
