// What an encoder says of a text: the words that it guesses, labels, tags, how alike texts are.
import { placesOf } from "../answers";
import { saved } from "../api";
import { useChoice } from "../choice";
import { css, inkOn, weightColours } from "../colours";
import { percent, signed } from "../format";
import { Waiting } from "../parts/waiting";
import { bare, isSpecial, shown } from "../pieces";
import type { Sentence } from "../recording";
import * as s from "../state";
import { hide } from "../translate";
import type { Place, Prediction } from "../types";
import { words } from "../words";
import { encoderWords } from "../words/encoder";
import { HeatTable } from "./layer/heat-table";
import { Bars, Facts } from "./probabilities";

export function Guesses() {
  const sentence = s.sentence.value!;
  const { prediction } = sentence;
  return (
    <>
      {prediction && <Predicted prediction={prediction} />}
      {s.model.value?.kind === "masked" && <Words sentence={sentence} />}
    </>
  );
}

// ---- Hidden words

function Words({ sentence }: { sentence: Sentence }) {
  const t = encoderWords.value;
  const [wanted, choose] = useChoice("query", Math.max(sentence.pieces.findIndex((_, n) => isHidden(sentence, n)), 0));
  const asked = placesOf(sentence);
  const places = asked.value?.places;
  if (!places) return <Waiting sentence={sentence} asked={asked} />;
  const at = Math.min(wanted, sentence.pieces.length - 1);
  const stood = pieceAt(sentence, at);
  const isOff = isHidden(sentence, at);
  const isUnknown = isOff && stood === null; // what stands there is a mask
  const place = isUnknown ? { ...places[at]!, chosen: null, rank: null, probability: null } : places[at]!;
  return (
    <>
      <p class="faint">{t.intro}</p>
      <div class="strip" role="group" aria-label={t.strip}>
        {sentence.pieces.map((piece, n) => <Token key={n} piece={piece} place={places[n]!} isHidden={isHidden(sentence, n)} isHere={n === at} choose={() => choose(n)} />)}
      </div>
      <h3>{t.guessedAt(at + 1)}</h3>
      <p class="row">
        <span>{isUnknown ? t.maskHere : isOff ? t.hiddenHere(shown(stood!)) : t.seesIt(shown(sentence.pieces[at]!))}</span>
        {!saved && !s.isExample.value && !isUnknown && !isSpecialAt(sentence, at) && (
          <button type="button" id="hide" disabled={s.running.value} onClick={() => void hide(at)}>{isOff ? t.show : t.hide}</button>
        )}
      </p>
      <Bars place={place} take={null} taken={isOff ? t.stood : t.stands} />
      <Facts place={place} rankIs={isOff ? t.rankStood : t.rankStands} />
    </>
  );
}

function Token({ piece, place, isHidden, isHere, choose }: { piece: string; place: Place; isHidden: boolean; isHere: boolean; choose: () => void }) {
  const colour = weightColours.value[Math.round(255 * 0.45 * (place.probability ?? 0))]!;
  return (
    <button
      type="button"
      aria-pressed={isHere}
      data-hidden={isHidden ? "" : undefined}
      title={place.probability === null ? undefined : percent(place.probability)}
      style={isHidden ? undefined : { background: css(colour), color: inkOn(colour) }}
      onClick={choose}
    >
      {shown(piece)}
    </button>
  );
}

// Hidden here, or by a mask in the text itself.
function isHidden(sentence: Sentence, at: number): boolean {
  return (sentence.expected && sentence.expected.ids[at] !== sentence.ids[at]) || /^(\s?\[MASK\]|\s?<mask>|⟨mask⟩)$/u.test(sentence.pieces[at] ?? "");
}

// What stood where a token is hidden; null: the text itself has a mask there.
function pieceAt(sentence: Sentence, at: number): string | null {
  const { expected } = sentence;
  return expected && expected.ids[at] !== sentence.ids[at] ? expected.pieces[at]! : null;
}

function isSpecialAt(sentence: Sentence, at: number): boolean {
  return isSpecial(pieceAt(sentence, at) ?? sentence.pieces[at]!);
}

// ---- Labels

function Predicted({ prediction }: { prediction: Prediction }) {
  const t = encoderWords.value;
  const { labels, words: tagged, score, low = 0, high = 1, follows, texts, similarity } = prediction;
  return (
    <>
      {labels && (
        <>
          <h3>{t.labels}</h3>
          <Shares shares={labels} />
        </>
      )}
      {follows !== undefined && (
        <>
          <h3>{t.follows}</h3>
          <Shares shares={[[t.yes, follows], [t.no, 1 - follows]]} />
        </>
      )}
      {score !== undefined && (
        <>
          <h3>{t.score}</h3>
          <p><meter min={low} max={high} value={score} aria-label={t.score} /> <span class="count" id="score">{signed(score, 4)}</span> <span class="faint">{t.scale(signed(low, 2), signed(high, 2))}</span></p>
        </>
      )}
      {tagged && <Tags tagged={tagged} />}
      {texts && similarity && <Similarity texts={texts} similarity={similarity} />}
    </>
  );
}

function Shares({ shares }: { shares: [name: string, probability: number][] }) {
  return (
    <div class="bars" id="labels">
      {shares.map(([name, probability]) => (
        <div class="bar" key={name}>
          <span class="piece">{name}</span>
          <span class="bar-line"><span style={{ width: `${100 * probability}%` }} /></span>
          <span class="number">{percent(probability)}</span>
          <span class="tag" />
        </div>
      ))}
    </div>
  );
}

function Tags({ tagged }: { tagged: NonNullable<Prediction["words"]> }) {
  const t = encoderWords.value;
  return (
    <div class="scroll" tabIndex={0} role="region" aria-label={t.tags}>
      <table class="numbers" id="tags">
        <caption>{t.tags}</caption>
        <thead>
          <tr>
            <th scope="col">{t.word}</th>
            <th scope="col">{t.tag}</th>
            <th scope="col" class="end">{words.value.probability}</th>
          </tr>
        </thead>
        <tbody>
          {tagged.map(([word, tag, probability], n) => (
            <tr key={n}>
              <th scope="row">{bare(word)}</th>
              <td class="said">{tag}</td>
              <td>{percent(probability)}</td>
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  );
}

function Similarity({ texts, similarity }: { texts: string[]; similarity: number[][] }) {
  const t = encoderWords.value;
  return (
    <>
      <h3>{t.similarity}</h3>
      <p class="faint">{t.similarityNote}</p>
      <HeatTable
        id="similarity"
        caption={t.similarity}
        corner={words.value.source}
        columns={texts.map((_, n) => ({ label: String(n + 1) }))}
        rows={texts.map((text, n) => ({ label: `${n + 1}: ${text}` }))}
        cell={(row, column) => ({ text: signed(similarity[row]![column]!, 2), share: Math.max(similarity[row]![column]!, 0) })}
      />
    </>
  );
}
