"""What kinds of objectives have in common, for whoever knows only the kind. Needs no torch.

                 reads            makes
translation      pairs            a translator
masked_target    pairs            a translator without an order of words: headway.decode.mask_predict
span_corruption  running text     a translator from damaged text to what is missing
denoising        running text     a translator from damaged text to whole text
causal           running text     a language model that continues text
permutation      running text     the same, trained in random orders
masked           running text     a language model that fills gaps
classify, tag,   labelled text    an encoder with a head: headway.translate.task_model
match, embed
solve            problems         a decoder that writes answers: headway.translate.solver
"""

PAIR_OBJECTIVES = ("translation", "masked_target")
DENOISING_OBJECTIVES = ("span_corruption", "denoising")
GENERATING_OBJECTIVES = ("causal", "permutation")
ENCODER_TASKS = ("classify", "tag", "match", "embed")
TASKS = (*ENCODER_TASKS, "solve")


def reads_pairs(kind: str) -> bool:
    """Whether models with this objective are trained on pairs, and so translate."""
    return kind in PAIR_OBJECTIVES


def is_denoising(kind: str) -> bool:
    """Whether source and target are both made of running text."""
    return kind in DENOISING_OBJECTIVES


def has_source(kind: str) -> bool:
    """Whether models with this objective have an encoder and a decoder."""
    return reads_pairs(kind) or is_denoising(kind)


def usual_verb(kind: str) -> str:
    """The verb of the command line for models with this objective."""
    if has_source(kind):
        return "translate"
    if continues_text(kind):
        return "generate"
    return {"masked": "fill", "embed": "embed"}.get(kind, "predict")


def shown_kind(kind: str) -> str:
    """What a model with this objective does with a text, for those who show it: "translation", "denoising", "causal",
    "masked", or its task; "causal" of a model that solves problems, too."""
    if reads_pairs(kind):
        return "translation"
    if is_denoising(kind):
        return "denoising"
    return "causal" if continues_text(kind) or kind == "solve" else kind


def continues_text(kind: str) -> bool:
    """Whether models with this objective predict each next token of running text."""
    return kind in GENERATING_OBJECTIVES
