// The interface in English. zh.ts has the same keys.

export interface TourFacts {
  source: string;
  result: string;
  tokens: string[];
  written: string[];
  vocabulary: number;
  width: number;
  encoderLayers: number;
  decoderLayers: number;
  heads: number;
  headWidth: number;
  position: string;
  self: { from: string; to: string; weight: number };
  cross: { from: string; to: string; weight: number; layer: number; head: number };
  isForceable: boolean; // whether another word can be chosen
  likely: { piece: string; probability: number; second: string; secondProbability: number; entropy: number } | null;
  beam: { size: number; candidates: number; pruned: number; steps: number };
}

const percent = (share: number): string => `${(100 * share).toFixed(1)} %`;

export const en = {
  language: "English",
  title: "Headway: look inside a translation",
  model: "Model",
  parameters: (count: string) => `${count} parameters`,
  theme: "Theme",
  themes: { system: "System", light: "Light", dark: "Dark" },
  interfaceLanguage: "Language",
  apiKey: "API key",
  help: "Help",
  close: "Close",
  tour: "Guided tour",
  tourShort: "Tour",

  source: "Text",
  sourceOf: (language: string) => `Text (${language})`,
  result: "Translation",
  resultOf: (language: string) => `Translation (${language})`,
  continued: "What the model wrote",
  onlyRead: "This model guesses hidden words: it reads the text and writes nothing.",
  placeholder: "Type a sentence",
  translate: "Translate",
  read: "Read",
  stop: "Stop",
  tryAgain: "Try again",
  needKey: "Type the API key first.",
  needText: "Type a text first.",
  modelLoads: "The model is being loaded.",
  exampleShown: (text: string) => `Meanwhile an example, recorded with another model: “${text}”`,
  savedPage: "This page was saved: it shows one translation and cannot make others.",
  settings: "Settings",
  beamSize: "Beam size",
  beamOwn: (size: number) => `${size} (the model's)`,
  ways: { search: "Beam search", sample: "Sampling" },
  onlyWith: (way: string) => `Only used with: ${way}`,
  lengthPenalty: "Length penalty α",
  noPenalty: "This model's search knows no length penalty.",
  topK: "Top k (0: all)",
  topP: "Top p",
  seed: "Seed",
  asTyped: "Translate as I type",
  direction: "Direction",
  examples: "Examples",
  exampleTexts: {
    en: ["A dog runs on the beach.", "Two children are playing football in the park.", "A woman in a red coat is reading a book on a bench."],
    de: ["Ein Hund rennt am Strand.", "Zwei Kinder spielen im Park Fußball."],
    zh: ["一只狗在海滩上奔跑。", "两个孩子在公园里踢足球。"],
  } as Record<string, string[]>,
  characters: (count: number, limit: number) => `${count} / ${limit} characters`,
  tokens: (count: number) => `${count} tokens`,
  perSecond: (count: string) => `${count} tokens/s`,
  copy: "Copy",
  copied: "Copied",
  asModelSays: "As the model says it",
  unsure: "Underlined: the model gave it less than 60 %.",
  firstVersion: "First version",
  forcedNote: (before: string, piece: string) => `“${piece}” was put in the place of “${before}”.`,
  sentenceOf: (n: number, count: number) => `Sentence ${n} of ${count}`,
  sentences: "Sentences",

  translating: "Translating",
  readDone: "The text was read.",
  phases: {
    locked: "This server asks for an API key: type it at the top of the page.",
    starting: "The model is being loaded …",
    empty: "Ready. Type a sentence, or take an example.",
    loading: "Waiting for the model …",
    streaming: "Translating …",
    paused: "Paused",
    done: "Done",
    stopped: "Stopped: what was written so far stays.",
    truncated: "Done",
    error: "That did not work.",
    expired: "The model was put away meanwhile. Translate again.",
    unsupported: "This model has nothing to show here.",
  },
  longText: (tokens: number, drawn: number) =>
    `${tokens} tokens: the overview draws ${drawn} × ${drawn} dots, each the largest weight of its cells. Nothing of the text is left out.`,
  notSaved: "It could not be saved: the server does not answer, or the picture is too large for this browser.",
  unreachable: "The server cannot be reached. Is it still running?",
  savedOnly: "This was not saved with the page.",
  warnings: "Note",

  timeline: "Step of the decoder",
  toStart: "To the first step",
  back: "One step back",
  play: "Play",
  pause: "Pause",
  forward: "One step on",
  toEnd: "To the last step",
  speed: "Speed",
  atStep: (n: number, last: number) => `${n} / ${last}`,
  encoderOnly: "only the encoder has read",
  predicting: (piece: string) => `predicting ${piece}`,
  latest: "Jump to the latest",

  map: "Stack",
  encoder: "Encoder",
  decoder: "Decoder",
  layer: "Layer",
  layerN: (n: number) => `Layer ${n}`,
  head: "Head",
  headN: (n: number) => `Head ${n}`,
  mean: "Mean",
  meanOfHeads: "Mean of all heads",
  where: (kind: string, layer: string, head: string) => `${kind}, ${layer}, ${head}`,
  kind: "Attention",
  kinds: { encoder: "Encoder self", decoder: "Decoder masked self", cross: "Cross" },
  kindsExplained: {
    encoder: "Each word of the text looks at all words of the text.",
    decoder: "Each place of the output looks at what was written before it. Later places are masked.",
    cross: "Each place of the output looks at the words of the text.",
  },
  someMasked: "Each word of the text looks at those words of the text that its mask lets it see.",

  panels: {
    attention: "Attention",
    inside: "Inside a head",
    probabilities: "Probabilities",
    beam: "Beam",
    vectors: "Embeddings",
    architecture: "Architecture",
  },
  nothingYet: "Translate a sentence, and this fills.",
  tryOne: "Or try one of these:",
  atlas: "All layers and heads",
  atlasHead: (layer: number, head: number) => `Layer ${layer}, head ${head}`,
  heatmap: "attention heatmap",
  heatmapOf: (what: string, rows: number, columns: number) => `${what}, ${rows} by ${columns}`,
  rows: "Rows: what listens. Columns: what is heard.",
  masked: "masked",
  cellReads: (row: string, column: string, value: string) => `${row} → ${column}: ${value}`,
  cellHint: "Point at a cell, or focus the map and use the arrow keys.",
  asWords: "Whole words",
  hideSpecials: "Hide ⟨marks⟩",
  ownScale: "Scale to the head's maximum",
  rootScale: "Square root",
  asTable: "Show as table",
  threshold: "Hide below",
  drawnFrom: (from: string) => `(hidden below ${from})`,
  options: "Display",
  legend: (high: string, root: boolean, from: string) => `0 to ${high}${root ? ", square root" : ""}${from && `, hidden below ${from}`}`,
  honesty: "Attention shows where the model looked, not why.",
  save: "Save",
  noWeights: (kind: string, layer: number) =>
    `Layer ${layer} has no attention weights: its mixer (${kind}) shares out no attention.`,
  noCross: "This model has no such side.",
  noDecoder: "This model only reads: it has no decoder, so there are no steps to show.",

  strip: "The output, coloured by probability",
  likelyAt: (n: number) => `What could have stood at place ${n}`,
  entropy: "Entropy",
  entropyExplained: (bits: string, choices: string) => `${bits} bits: as unsure as between ${choices} equal choices`,
  rank: "Rank of what was taken",
  probability: "Probability",
  temperature: "Temperature",
  taken: "taken",
  useInstead: (piece: string) => `Use “${piece}” here and translate the rest again`,
  clickHint: "Click another word: it is put there, and the rest is translated again.",
  firstStep: "Move the timeline to a step of the decoder.",
  cannotForce: "A mark cannot be put there.",

  beamTitle: "Every hypothesis that the search looked at",
  beamLegend: { win: "winning", runs: "went on", ends: "finished", cut: "cut", pruned: "pruned" },
  beamNode: (text: string, logp: string, fate: string) => `${text}: log-probability ${logp}, ${fate}`,
  beamHint: "Point at a hypothesis, or focus one and use the arrow keys; Enter keeps it.",
  hypotheses: "Finished hypotheses",
  hypothesis: "Hypothesis",
  logp: "log p",
  score: "Score",
  fate: "Fate",
  scoreExplained: "Score = log p divided by a penalty of the length; the highest wins.",
  greedyNote: "Beam size 1: only the likeliest word goes on each time.",

  architectureTitle: "The model, as its config says",
  shape: "Shape",
  flops: "Operations",
  flopsNote: (source: number, target: number) => `of a forward pass with ${source} and ${target} tokens; only matrix products count`,
  total: "Total",
  block: "Block",
  type: "Kind",
  parameterColumn: "Parameters",
  embedding: "Embedding",
  positions: "Positions",
  output: "Output",
  subs: { self: "Self-attention", cross: "Cross-attention", feedforward: "Feed-forward", end: "Last norm", position: "Positions" },
  layersFromTo: (from: number, to: number) => `Layers ${from} to ${to}`,
  operations: (count: string) => `${count} operations`,
  fromEncoder: "hears the encoder",
  norms: { pre: "norm before", post: "norm after" } as Record<string, string>,
  lookAtIt: (what: string) => `Look at ${what}`,

  query: "Query",
  insideSteps: ["Queries, keys, values", "Scores", "Mask", "Softmax", "Weighted sum", "Output"],
  insideTexts: [
    "Three matrices turn what comes in (x) into a query, and, for every place, into a key and a value. This head has its own part of them.",
    "The query is multiplied with every key. Alike vectors give large numbers. The scale keeps them from growing with the width.",
    "Where looking is not allowed the score counts as minus infinity.",
    "The exponential of each score, divided by their sum: positive numbers that add up to 1.",
    "The values of all places, each times its weight, added up: what this head hears.",
    "What all heads have heard lies side by side and is multiplied with one more matrix. The result is added to the stream.",
  ],
  faded: "The query is multiplied with every key, and what lies further back counts less: at each place on the way the score fades by γ. What comes later is not heard. The keys are scaled already.",
  otherScale: "The query is multiplied with every key. Alike vectors give large numbers. How they are scaled is this model's own.",
  hears: "This model's positions add a vector of their own to every value, by its distance. It is heard, too: the output is made of c and of that.",
  bent: "This model's positions bend the scores as well, so they are not q · k alone.",
  allowed: "allowed",
  previous: "Previous",
  next: "Next",
  allNumbers: "All numbers",
  key: "Key",
  weight: "Weight",
  value: "Value",
  context: "Sum",
  ofWidth: (n: number) => `${n} numbers`,
  chooseHead: "Choose one head: the mean of all has no queries.",

  vectorsTitle: "The way of each token through the layers",
  stage: "After",
  stageNames: { embedded: "embedding" },
  plane: "One plane for all layers: that in which the vectors, each with length 1, differ most.",
  neighbours: "Nearest in the vocabulary",
  token: "Token",
  positionTitle: (kind: string) => `Positions: ${kind}`,
  positionAdded: "What is added to each vector: rows are positions, columns channels.",
  positionScores: "How the score of a query and a key that are alike depends on their positions.",
  channel: "Channel",
  axes: { channel: "channel", key: "key", position: "position", query: "query" },
  noPositions: "This side marks no positions.",
  side: "Side",

  tourStart: "Take the tour",
  tourNeeds: "The tour goes through one sentence: translate one first.",
  tourOf: (n: number, count: number) => `Step ${n} of ${count}`,
  tourEnd: "End the tour",
  tourSteps: [
    {
      title: "A sentence becomes tokens",
      text: (f: TourFacts) =>
        `“${f.source}” is cut into ${f.tokens.length} pieces: ${f.tokens.join(" | ")}. Frequent words are one piece, rare ones several. The vocabulary has ${f.vocabulary} of them, and from here on the model knows only their numbers.`,
    },
    {
      title: "Tokens become vectors",
      text: (f: TourFacts) =>
        `Each piece is looked up in a table and becomes ${f.width} numbers. Words that are used alike lie near each other: see the neighbours below. Attention by itself knows no order, so positions are marked too (${f.position}).`,
    },
    {
      title: "The encoder: words look at each other",
      text: (f: TourFacts) =>
        `In ${f.encoderLayers === 1 ? "one layer" : `${f.encoderLayers} layers, each`} with ${f.heads === 1 ? "one head" : `${f.heads} heads`}, every word gathers from all others what matters for it. Here the strongest link between two different words: “${f.self.from}” looks at “${f.self.to}” with ${percent(f.self.weight)} of its attention.`,
    },
    {
      title: "Inside one head",
      text: (f: TourFacts) =>
        `How does a head decide? It turns each word into a query (what do I seek?), a key (what do I offer?) and a value (what do I say?) of ${f.headWidth} numbers each. Query times key is a score; scores are divided by √${f.headWidth}; the softmax makes shares of them. Go through the six steps: the numbers are the model's.`,
    },
    {
      title: "The decoder looks back, never ahead",
      text: (f: TourFacts) =>
        `The output is written one piece at a time: ${f.written.join(" | ")}. While a place is computed, later ones do not exist yet. In training they do, so they are masked: the hatched triangle.`,
    },
    {
      title: "Cross-attention: where translation happens",
      text: (f: TourFacts) =>
        `While it writes “${f.cross.from}”, head ${f.cross.head} of layer ${f.cross.layer} looks at “${f.cross.to}”: ${percent(f.cross.weight)}. Nobody told the model which word means which. Move the timeline and watch the row.`,
    },
    {
      title: "From a vector to a word",
      text: (f: TourFacts) =>
        f.likely
          ? `At the end stands a share for each of the ${f.vocabulary} pieces. Here “${f.likely.piece}” has ${percent(f.likely.probability)}, “${f.likely.second}” ${percent(f.likely.secondProbability)}; the entropy is ${(f.likely.entropy / Math.LN2).toFixed(2)} bits.${f.isForceable ? " Click another word, and the model must go on from it." : ""}`
          : `At the end stands a share for each of the ${f.vocabulary} pieces.`,
    },
    {
      title: "Several drafts at once",
      text: (f: TourFacts) =>
        `The likeliest next word need not begin the likeliest sentence. So the search keeps ${f.beam.size} drafts. In ${f.beam.steps} steps it looked at ${f.beam.candidates} and gave up ${f.beam.pruned}. The bold path won: “${f.result}”.`,
    },
  ],

  keys: [
    ["Ctrl + Enter", "translate"],
    ["Esc", "stop, unlock, close, end the tour"],
    ["Space", "play, pause"],
    ["← →", "step of the decoder; in the heatmap: the cell"],
    ["← → ↑ ↓", "in the beam: parent, child, rank above, rank below"],
    ["[ ]", "layer"],
    [", .", "head"],
    ["1 2 3", "encoder, decoder, cross"],
    ["T", "table"],
    ["?", "this list"],
  ] as [string, string][],
  keysTitle: "Keys (inside the lower part of the page)",
};

export type Words = typeof en;
