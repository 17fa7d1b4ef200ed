// A term of the field, in a text of the tour: shown as one.
const [BEGIN, END] = ["\u0001", "\u0002"];

export const term = (text: string): string => BEGIN + text + END;

export interface Part {
  text: string;
  isTerm: boolean;
}

export function partsOf(text: string): Part[] {
  return text.split(BEGIN).flatMap((part, n) => {
    if (n === 0) return [{ text: part, isTerm: false }];
    const [said = "", after = ""] = part.split(END);
    return [{ text: said, isTerm: true }, { text: after, isTerm: false }];
  });
}
