"""Every kind that a slot can hold, as one literal table. No torch here: docs and config errors read it.

To add a kind: write its module, add one line here, write one page in docs/.
"""

from typing import NamedTuple

from headway.errors import ConfigError, did_you_mean


class Entry(NamedTuple):
    slot: str
    kind: str
    target: str  # "module:Class"; the class owns a nested Config
    line: str
    cost: str = ""  # in sequence length n, for a whole sequence
    reference: str = ""


CATALOGUE: tuple[Entry, ...] = (
    # what marks order
    Entry("position", "none", "headway.nn.positions.positions:NoPosition", "no positions: a set, not a sequence", "0"),
    Entry("position", "sinusoidal", "headway.nn.positions.positions:Sinusoidal", "sines and cosines added to x", "O(n)", "Vaswani 2017"),
    Entry("position", "learned", "headway.nn.positions.positions:Learned", "a learned vector for each position added to x", "O(n)", "Gehring 2017"),
    Entry("position", "rope", "headway.nn.positions.positions:Rope", "queries and keys turned by their position", "O(n)", "Su 2021"),
    Entry("position", "alibi", "headway.nn.positions.positions:Alibi", "scores lowered in proportion to distance", "O(n²)", "Press 2022"),
    Entry("position", "t5", "headway.nn.positions.t5:T5Bias", "bends scores by a learned number for each distance", "O(n²) a layer", "Raffel 2020"),
    Entry("position", "shaw", "headway.nn.positions.shaw:Shaw", "a learned vector for each distance, beside keys and values", "O(n²) a layer", "Shaw 2018"),
    Entry("position", "xl", "headway.nn.positions.transformer_xl:TransformerXL", "what a query says to a distance, beside what it says to a key", "O(n²) a layer", "Dai 2019"),
    # who may look at whom
    Entry("mask", "full", "headway.nn.masks.masks:Full", "everyone sees everyone", "O(n²)"),
    Entry("mask", "causal", "headway.nn.masks.masks:Causal", "only the past and the present", "O(n²)", "Vaswani 2017"),
    Entry("mask", "local", "headway.nn.masks.masks:Local", "only neighbours: fewer than `window` places away", "O(n·window)", "Child 2019"),
    Entry("mask", "strided", "headway.nn.masks.sparse:Strided", "every s-th place, counted from oneself", "O(n²/s)", "Child 2019"),
    Entry("mask", "fixed", "headway.nn.masks.sparse:Fixed", "one's own stretch, and the last places of every other", "O(n√n)", "Child 2019"),
    Entry("mask", "bigbird", "headway.nn.masks.sparse:BigBird", "neighbouring, first, last and random blocks", "O(n)", "Zaheer 2020"),
    Entry("mask", "segments", "headway.nn.masks.sparse:Segments", "one's own segment, and `memory` places before it", "O(n·(length + memory))", "Dai 2019"),
    Entry("mask", "all", "headway.nn.masks.masks:All", "what every one of `parts` allows; written a & b"),
    Entry("mask", "any", "headway.nn.masks.masks:Any_", "what at least one of `parts` allows; written a | b"),
    # who listens to whom
    Entry("mixer", "attention", "headway.nn.mixers.attention:Attention", "multi-head attention; grouped or single keys with `groups`", "O(n²)", "Vaswani 2017; Shazeer 2019; Ainslie 2023"),
    Entry("mixer", "shared", "headway.nn.mixers.shared_kv:Shared", "attention to keys and values made once, for all these layers", "O(n²)", "Sun 2024"),
    Entry("mixer", "retention", "headway.nn.mixers.retention:Retention", "no softmax: the past fades, and is kept as one matrix a head", "O(n)", "Sun 2023; Sun 2024"),
    # what each place does alone
    Entry("feedforward", "relu", "headway.nn.layers.feedforward:FeedForward", "max(0, xW₁ + b₁)W₂ + b₂", "O(n)", "Vaswani 2017"),
    Entry("feedforward", "gelu", "headway.nn.layers.feedforward:FeedForward", "the same with GELU", "O(n)", "Hendrycks 2016"),
    Entry("feedforward", "gelu_tanh", "headway.nn.layers.feedforward:FeedForward", "GELU by its tanh formula, as GPT-2", "O(n)", "Hendrycks 2016"),
    Entry("feedforward", "silu", "headway.nn.layers.feedforward:FeedForward", "the same with SiLU (swish)", "O(n)", "Ramachandran 2017"),
    Entry("feedforward", "swiglu", "headway.nn.layers.feedforward:SwiGLU", "(silu(xW) ⊙ xV)W₂", "O(n)", "Shazeer 2020"),
    Entry("feedforward", "moe", "headway.nn.layers.moe:MixtureOfExperts", "several feed-forwards, of which each token visits `top`", "O(n)", "Shazeer 2017; Fedus 2022; Jiang 2024"),
    # how a sub-layer joins the stream
    Entry("residual", "post", "headway.nn.layers.residual:Post", "norm(x + f(x))", "", "Vaswani 2017"),
    Entry("residual", "pre", "headway.nn.layers.residual:Pre", "x + f(norm(x)), one more norm at the end", "", "Xiong 2020"),
    Entry("residual", "deepnorm", "headway.nn.layers.residual:DeepNorm", "norm(α·x + f(x)), α and the first weights by depth", "", "Wang 2022"),
    Entry("residual", "resi_dual", "headway.nn.layers.residual:ResiDual", "post, and a second stream without norms; their sum at the end", "", "Xie 2023"),
    Entry("norm", "layernorm", "headway.nn.layers.norms:LayerNorm", "centred and scaled, with gain and bias", "", "Ba 2016"),
    Entry("norm", "rmsnorm", "headway.nn.layers.norms:RMSNorm", "scaled by the root mean square, with gain", "", "Zhang 2019"),
    Entry("norm", "none", "headway.nn.layers.norms:NoNorm", "nothing"),
    Entry("linear", "dense", "headway.nn.layers.linear:Dense", "xWᵀ + b"),
    Entry("linear", "bitnet", "headway.nn.layers.bitlinear:BitLinear", "weights -1, 0 or 1, inputs of eight bits", "", "Ma 2024; Wang 2023"),
    # what the stack's output becomes
    Entry("head", "logits", "headway.nn.layers.heads:Logits", "one score for each word of the vocabulary"),
    Entry("head", "masked", "headway.nn.layers.heads:Masked", "the same behind a transform, as BERT's masked words", "", "Devlin 2019"),
    Entry("head", "pooled", "headway.nn.layers.heads:Pooled", "one vector for the text, from its first place, and class scores", "", "Devlin 2019"),
    # how it is trained
    Entry("objective", "translation", "headway.train.objectives:Translation", "the target, given the source"),
    Entry("objective", "causal", "headway.train.objectives:Causal", "the next token, given those before", "", "Radford 2018"),
    Entry("objective", "masked", "headway.train.objectives:MaskedWords", "hidden tokens, given those around", "", "Devlin 2019"),
    Entry("alignment", "none", "headway.train.guided_alignment:NoAlignment", "attention is left to itself"),
    Entry("alignment", "guided", "headway.train.guided_alignment:Guided", "one head learns which source words a word comes from", "", "Chen 2016; Garg 2019"),
    Entry("shortlist", "none", "headway.train.shortlist:NoShortlist", "every word of the vocabulary is weighed at every step"),
    Entry("shortlist", "lexical", "headway.train.shortlist:Lexical", "the words that those of the source were translated by, and frequent ones", "", "Jean 2015; L'Hostis 2016"),
    Entry("shortlist", "frequent", "headway.train.shortlist:Frequent", "the most frequent words only, for every sentence"),
    Entry("optimiser", "adam", "headway.train.optimisers:Adam", "Adam as in the paper: β 0.9, 0.98, ε 1e-9", "", "Kingma 2015"),
    Entry("optimiser", "adamw", "headway.train.optimisers:AdamW", "Adam with decoupled weight decay", "", "Loshchilov 2019"),
    Entry("optimiser", "sgd", "headway.train.optimisers:SGD", "plain gradient descent"),
    Entry("optimiser", "momentum", "headway.train.optimisers:Momentum", "gradient descent with momentum"),
    Entry("optimiser", "adagrad", "headway.train.optimisers:AdaGrad", "rates shrink with each weight's past gradients", "", "Duchi 2011"),
    Entry("optimiser", "rmsprop", "headway.train.optimisers:RMSProp", "rates by a running mean of squared gradients", "", "Hinton 2012"),
    Entry("optimiser", "muon", "headway.train.optimisers:Muon", "orthogonalised momentum for matrices, AdamW for the rest", "", "Jordan 2024"),
    Entry("schedule", "noam", "headway.train.schedules:Noam", "d^-½ · min(step^-½, step · warmup^-1½)", "", "Vaswani 2017"),
    Entry("schedule", "inverse_sqrt", "headway.train.schedules:InverseSqrt", "the same shape with a peak of your own"),
    Entry("schedule", "cosine", "headway.train.schedules:Cosine", "warm-up, then half a cosine to `floor`", "", "Loshchilov 2017"),
    Entry("schedule", "linear", "headway.train.schedules:Linear", "warm-up, then a straight line to `floor`"),
    Entry("schedule", "constant", "headway.train.schedules:Constant", "warm-up, then one rate"),
    # how text becomes numbers
    Entry("tokenizer", "bpe", "headway.text.tokenizer.tokenizer:Bpe", "merged byte pairs", "", "Sennrich 2016"),
    Entry("tokenizer", "unigram", "headway.text.tokenizer.tokenizer:Unigram", "the likeliest split into pieces", "", "Kudo 2018"),
    Entry("tokenizer", "bytes", "headway.text.tokenizer.tokenizer:Bytes", "one token a byte"),
    Entry("tokenizer", "characters", "headway.text.tokenizer.tokenizer:Characters", "one token a character"),
    Entry("tokenizer", "wordpiece", "headway.text.tokenizer.tokenizer:WordPiece", "BERT's pieces; loses spacing", "", "Schuster 2012"),
)  # fmt: skip


def slots() -> list[str]:
    return list(dict.fromkeys(entry.slot for entry in CATALOGUE))


def kinds(slot: str) -> list[str]:
    return [entry.kind for entry in CATALOGUE if entry.slot == slot]


def find(slot: str, kind: str) -> Entry:
    for entry in CATALOGUE:
        if (entry.slot, entry.kind) == (slot, kind):
            return entry
    allowed = kinds(slot)
    raise ConfigError(
        f'"{kind}" is not a kind of {slot}.{did_you_mean(kind, allowed)} Choose one of: {", ".join(allowed)}.'
    )
