// What an encoder says of a text, in one line.
import { percent, signed } from "./format";
import type { Prediction } from "./types";
import { words } from "./words";

export function sayPrediction({ labels, words: tagged, score, follows, texts, similarity }: Prediction): string {
  if (labels?.[0]) return `${labels[0][0]} (${percent(labels[0][1])})`;
  if (tagged) return tagged.map(([word, tag]) => `${word}/${tag}`).join(" ");
  if (score !== undefined) return signed(score, 3);
  if (follows !== undefined) return words.value.followsBy(percent(follows));
  if (texts && texts.length > 1) return words.value.cosine(signed(similarity![0]![1]!, 3));
  return "";
}
