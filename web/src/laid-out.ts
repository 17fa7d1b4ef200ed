// A translation, cut where its tokens end. A tokenizer knows no line breaks, so white space is the text's.

export interface Laid {
  space: string; // in front of it
  text: string;
}

const SPACE = /\s/u;

// By sentence and token; null where the text is another than what the tokens say: case, tags and names may be put back.
export function laidOut(text: string, sentences: string[][]): Laid[][] | null {
  let at = 0;
  const past = (place: number): number => {
    while (place < text.length && SPACE.test(text[place]!)) place++;
    return place;
  };
  const all: Laid[][] = [];
  for (const pieces of sentences) {
    const laid: Laid[] = [];
    for (const piece of pieces) {
      const letters = [...piece].filter((one) => !SPACE.test(one));
      const from = letters.length ? past(at) : at;
      let to = from;
      for (const letter of letters) {
        to = past(to);
        if (!text.startsWith(letter, to)) return null;
        to += letter.length;
      }
      laid.push({ space: text.slice(at, from), text: text.slice(from, to) });
      at = to;
    }
    all.push(laid);
  }
  return past(at) === text.length ? all : null;
}
