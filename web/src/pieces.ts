// Tokens as they can be read, and as words.

const SPECIAL = /^⟨.*⟩$|^…$/u;
const OWN_WORD = /^[\p{P}\p{S}]+$|^[\p{Script=Han}\p{Script=Hiragana}\p{Script=Katakana}\p{Script=Thai}]/u;

export function isSpecial(piece: string): boolean {
  return SPECIAL.test(piece);
}

// A space in front is shown as a thin mark; what cannot be seen is spelled out.
export function shown(piece: string): string {
  const visible = piece.replace(/^ /u, "·").replace(/ /gu, "␣");
  return visible.replace(/[\p{Cc}\p{Cf}\p{Zl}\p{Zp}]/gu, (c) => `<${c.codePointAt(0)!.toString(16).toUpperCase()}>`);
}

// Without the mark of the space in front of it.
export function bare(piece: string): string {
  return shown(piece).replace(/^·(?=.)/u, "");
}

// Codes of made-up languages mean nothing to a browser.
export function languageTag(code: string | undefined): string | undefined {
  return code && /^[a-z]{2}(-|$)/u.test(code) ? code : undefined;
}

export interface Group {
  label: string;
  from: number;
  to: number; // behind its last token
}

export function tokensOf(pieces: string[]): Group[] {
  return pieces.map((piece, n) => ({ label: shown(piece), from: n, to: n + 1 }));
}

export function wordsOf(pieces: string[]): Group[] {
  const groups: Group[] = [];
  pieces.forEach((piece, n) => {
    const last = groups.at(-1);
    const begins = !last || piece.startsWith(" ") || isSpecial(piece) || isSpecial(pieces[n - 1]!);
    const own = OWN_WORD.test(piece.trimStart()) || OWN_WORD.test(pieces[n - 1]?.trimStart() ?? "");
    if (begins || own) groups.push({ label: bare(piece), from: n, to: n + 1 });
    else {
      last.label += shown(piece);
      last.to = n + 1;
    }
  });
  return groups;
}
