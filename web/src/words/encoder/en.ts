// What encoders guess and predict, what mixers without weights hear, iterations: in English. zh.ts has the same keys.

export const encoderEn = {
  intro: "Each token is coloured by the probability that the model gives it in its place. Choose one to see what else the model would put there.",
  strip: "The text, coloured by probability",
  guessedAt: (n: number) => `What the model puts in place ${n}`,
  seesIt: (piece: string) => `The model sees “${piece}” here: hide it, and the model has to guess.`,
  hiddenHere: (piece: string) => `“${piece}” is hidden here: the model guesses from the words around it.`,
  maskHere: "The text has a mask here: the model guesses from the words around it.",
  hide: "Hide it",
  show: "Show it again",
  stands: "stands there",
  stood: "stood there",
  rankStands: "Rank of what stands there",
  rankStood: "Rank of what stood there",

  labels: "Labels",
  follows: "Does the second text follow the first?",
  yes: "yes",
  no: "no",
  score: "Score",
  scale: (low: string, high: string) => `on a scale from ${low} to ${high}`,
  tags: "The tag of each word",
  word: "Word",
  tag: "Tag",
  similarity: "How alike the texts are",
  similarityNote: "Cosines of the vectors of your lines: 1 is the same direction. The other panels show the first line. Type several lines to compare them.",

  influence: "Influence",
  influenceNote: "By how much the output of this layer at a row changes, as a share of its length, if the vector of the column is taken away. Rows do not sum to 1.",
  tooLong: (count: number, limit: number) => `The text has ${count} tokens; this map is made for at most ${limit}.`,

  iterations: {
    title: (count: number) => `All tokens at once, in ${count} iterations`,
    intro: "This model has no beam: it writes all tokens at once, then masks those of which it was least sure, and predicts them again with the others in sight.",
    table: "What stood in each place after each iteration, coloured by its probability",
    iteration: "Iteration",
    predicted: (piece: string, share: string) => `${piece}: predicted in this iteration, ${share}`,
    again: (piece: string, share: string) => `${piece}: predicted again, ${share}`,
    kept: (piece: string, share: string) => `${piece}: kept, ${share}`,
    legend: (shown: number) => `↻ was masked, and predicted in this iteration; the others were kept. The other panels show iteration ${shown}.`,
    choose: "Click the number of another to see that one there.",
  },
};

export type EncoderWords = typeof encoderEn;
