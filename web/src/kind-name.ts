// What a kind of attention is called in the model that is shown.
import * as s from "./state";
import type { Kind } from "./types";
import { words } from "./words";

export function nameOfKind(kind: Kind): string {
  const t = words.value;
  const info = s.model.value;
  if (kind === "decoder" && info?.config.decoder.streams === 2) return t.contentStream;
  if (kind === "decoder" && s.writesAtOnce(info)) return t.kindsAtOnce;
  return t.kinds[kind];
}

// "Cross, Layer 1, Head 2"; of a mixer without heads: "Decoder, Layer 1".
export function tellWhere(heads = Infinity): string {
  const t = words.value;
  const layer = t.layerN(s.layer.value + 1);
  if (!heads) return t.whereLayer(nameOfKind(s.kind.value), layer);
  return t.where(nameOfKind(s.kind.value), layer, s.head.value < 0 ? t.meanOfHeads : t.headN(Math.min(s.head.value, heads - 1) + 1));
}
