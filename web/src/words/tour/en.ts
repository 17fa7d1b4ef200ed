// The tour in English; other languages have the same keys. Loaded when the tour begins.
import type { Facts } from "../../tour/facts";
import { MUCH, type Quiz } from "../../tour/quizzes";
import type { StopName } from "../../tour/stops";
import { term } from "../terms";

export interface StopWords {
  title: string;
  text: (f: Facts) => string;
  question?: (f: Facts, quiz: Quiz) => string;
  answer?: (f: Facts, quiz: Quiz) => string; // why the right one is right
}

export interface TourWords {
  position: (n: number, count: number) => string;
  end: string;
  show: string;
  needsSentence: string;
  waits: string;
  tokens: string;
  quiz: string;
  right: string;
  wrong: (right: string) => string;
  yes: string;
  no: string;
  keys: string;
  stops: Record<StopName, StopWords>;
}

const percent = (share: number): string => `${(100 * share).toFixed(1)} %`;
const first = (f: Facts): string => f.made?.[0].piece ?? f.pair?.[0].piece ?? f.likely?.piece ?? "";

export const tourEn: TourWords = {
  position: (n, count) => `Stop ${n} of ${count}`,
  end: "End the tour",
  show: "Go to what is outlined",
  needsSentence: "The tour follows one sentence through the model: translate one first.",
  waits: "The tour begins as soon as the model has answered …",
  tokens: "Tokens and their ids",
  quiz: "What do you think?",
  right: "Right.",
  wrong: (right) => `Not quite: it is “${right}”.`,
  yes: "Yes",
  no: "No",
  keys: "← → one stop, F6 to what is outlined and back, Esc ends",
  stops: {
    tokens: {
      title: "Text becomes tokens",
      text: (f) =>
        `A model reads no letters. The text is cut into ${term("tokens")}, ${f.tokens.length} here, out of a vocabulary of ${f.vocabulary}: a frequent word is one token, a rare one several. All that the model gets is their numbers.` +
        (f.pair ? ` “${f.pair[0].piece}” is number ${f.pair[0].id}, “${f.pair[1].piece}” number ${f.pair[1].id}: these two words are followed to the end of the tour.` : ""),
    },
    vectors: {
      title: "Tokens become vectors",
      text: (f) =>
        `Each id is looked up in a table, the ${term("embedding")}, and becomes a vector of ${f.width} numbers. Attention by itself knows no order, so ` +
        (f.position === "none" ? "this model has to learn it from its mask." : `a ${term("positional encoding")} (${f.position}) says where each token stands.`) +
        ` The picture is the plane in which the vectors differ most (${term("principal component analysis, PCA")}). Move its slider: the vectors wander from layer to layer, and what ends up close is used alike.`,
      question: (f) => `Which token of the vocabulary lies nearest to “${f.pair?.[0].piece}”?`,
      answer: (_, quiz) => `Their ${term("cosine similarity")} is ${quiz.values[0]!.toFixed(2)}; 1 would be the same direction.`,
    },
    head: {
      title: "The arithmetic of one head",
      text: (f) =>
        `How does “${f.self!.from}” find “${f.self!.to}”? Head ${f.self!.head + 1} of layer ${f.self!.layer + 1} multiplies each vector with three matrices: a ${term("query")} (what is looked for), a ${term("key")} (what is offered) and a ${term("value")} (what is passed on), ${f.headWidth} numbers each. Query and key are multiplied number by number and added up: their ${term("dot product")}, scaled, is the score. ${term("Softmax")} turns the scores of a row into shares that add up to 1. Here “${f.self!.to}” gets ${percent(f.self!.weight)} of the attention of “${f.self!.from}”. Go through the steps of the panel: each equation can be recomputed.`,
      question: (f) => `The same head: what does “${f.pair?.[1].piece}” attend to most?`,
      answer: (_, quiz) => `It gets ${percent(quiz.values[0]!)}.`,
    },
    heads: {
      title: "Many heads, many questions",
      text: (f) =>
        `One head asks one question; ${f.heads} of them work side by side in each of the ${f.layers} layers (${term("multi-head attention")}). Each small picture is a head on this sentence: rows attend, columns are attended to, dark is much. Some heads look at the neighbour, some at the same word, some rest on the end mark. What all heads of a layer found is put side by side and mixed by one more matrix.`,
      question: (f, quiz) => `In how many of the ${quiz.values[1]} heads does “${f.self!.from}” give “${f.self!.to}” more than ${100 * MUCH} % of its attention?`,
      answer: (_, quiz) => `It is ${quiz.values[0]} of ${quiz.values[1]}.`,
    },
    masked: {
      title: "The decoder looks back, never ahead",
      text: (f) =>
        `The output is written one token at a time: ${f.written.join(" | ")}. While one is chosen, later ones do not exist. In training they do, and a ${term("causal mask")} hides them: the hatched triangle. So the model learns on all places at once what it will do one after the other (${term("autoregressive")} decoding).`,
      question: (f) => `How many tokens can the decoder attend to while it chooses “${f.written[f.place] ?? ""}”?`,
      answer: (_, quiz) => `The start mark, and the ${quiz.values[0]! - 1} written before it.`,
    },
    cross: {
      title: "Cross-attention: where translation happens",
      text: (f) =>
        `While it writes “${f.cross!.from}”, head ${f.cross!.head + 1} of layer ${f.cross!.layer + 1} looks at “${f.cross!.to}” with ${percent(f.cross!.weight)} of its attention. In ${term("cross-attention")} the query comes from the decoder, keys and values from the encoder. Nobody told the model which word means which: it is what made the training texts likelier. Read off row by row, it is a word ${term("alignment")}.`,
      question: (f) => `What does this head look at while “${f.made![1].piece}” is written?`,
      answer: (_, quiz) => `It gets ${percent(quiz.values[0]!)}.`,
    },
    residual: {
      title: "Added, not replaced",
      text: (f) =>
        `What a layer finds out is added to the vector, not put in its place: x + f(x), a ${term("residual connection")}. So the embedding of “${f.pair?.[0].piece ?? first(f)}” is still part of its vector after ${f.layers} layers, and in training the gradient has a straight way back. ` +
        (f.isPreNorm === null ? "" : `A ${term(f.norm === "rmsnorm" ? "RMS norm" : f.norm === "layernorm" ? "layer norm" : f.norm)} ${f.isPreNorm ? "before each step" : "after each sum"} keeps the numbers in one range${f.norm === "layernorm" ? ": minus their mean, divided by their standard deviation" : ""} (${term(f.isPreNorm ? "pre-norm" : "post-norm")}).`),
      question: (f) => `How often is something added to the vector of one token in the ${f.side}?`,
      answer: (_, quiz) => `Each of the ${quiz.values[1]} layers adds ${quiz.values[0]! / quiz.values[1]!} times.`,
    },
    feedforward: {
      title: "Each token by itself",
      text: (f) =>
        `Attention carries information from token to token; the ${term("feed-forward network")} (${f.feedforward}) then works on each vector alone. ` +
        (f.hidden ? `It widens the ${f.width} numbers to ${f.hidden}, lets only some of these ${term("neurons")} through, and returns to ${f.width}. ` : "") +
        `Its result, too, is added to the stream. The same weights serve every token of the sentence.`,
      question: () => "How many of this model's parameters are in feed-forwards?",
      answer: (_, quiz) => `${quiz.values[0]} %; attention has ${quiz.values[1]} %.`,
    },
    output: {
      title: "From a vector to a word",
      text: (f) =>
        `The last vector is compared with each of the ${f.vocabulary} tokens: one score each, a ${term("logit")}. Softmax makes a ${term("probability distribution")} of them. ` +
        (f.likely
          ? `After “${f.likely.after}”, “${f.likely.piece}” has ${percent(f.likely.probability)} and “${f.likely.second}” ${percent(f.likely.secondProbability)}; the ${term("entropy")}, ${f.likely.bits.toFixed(2)} bits, says how unsure that is.${f.isForceable ? " Click another token: it is put there, and the model has to go on from it." : ""}`
          : ""),
      question: () => "At which place was the model least sure?",
      answer: (_, quiz) => `There the entropy is ${quiz.values[0]!.toFixed(2)} bits, as unsure as between ${(2 ** quiz.values[0]!).toFixed(1)} equal choices.`,
    },
    beam: {
      title: "Several drafts at once",
      text: (f) =>
        `The likeliest next token need not begin the likeliest sentence. ${term("Beam search")} keeps the ${f.beam.size} best beginnings (${term("hypotheses")}): in ${f.beam.steps} steps it looked at ${f.beam.candidates} and dropped ${f.beam.pruned}. Each is rated by its log-probability, divided by a penalty for its length. The thick path won: “${f.result}”`,
      question: () => "Would taking the likeliest token at every place (greedy search) have given the same text?",
      answer: (f, quiz) =>
        quiz.values.length ? `At place ${quiz.values[0]! + 1}, “${f.written[quiz.values[0]!]}” was only number ${quiz.values[1]}, with ${percent(quiz.values[2]!)}.` : "The likeliest token was taken at every place.",
    },
  },
};
