"""Option names of other toolkits (fairseq, Marian, OpenNMT, Hugging Face), for hints in error messages."""

# Their names -> ours. A verb suggests the first of ours that it has; "--set KEY=..." stands for a config key.
FOREIGN_OPTIONS: dict[tuple[str, ...], list[str]] = {
    # search
    ("--alpha", "--lenpen", "--normalize"): ["--length-penalty"],
    ("--beam", "--num-beams"): ["--beam-size"],
    ("--nbest", "--num-hypotheses", "--num-return-sequences"): ["--n-best"],
    ("--no-repeat-ngram-size", "--block-ngram-repeat"): ["--no-repeat-ngram"],
    ("--alignment", "--print-alignment", "--report-align"): ["--align"],
    ("--random-sampling-topk", "--sampling-topk"): ["--top-k"],
    ("--random-sampling-topp", "--sampling-topp"): ["--top-p"],
    ("--max-new-tokens",): ["--max-length"],
    ("--prefix-size", "--target-prefix"): ["--prefix"],
    ("--constraints", "--terminology"): ["--glossary"],
    # languages and files
    ("--from-lang", "--source-lang", "--src-lang"): ["--from"],
    ("--to-lang", "--target-lang", "--tgt-lang"): ["--to"],
    ("--src", "--train-src"): ["--source", "--input"],
    ("--tgt", "--train-tgt"): ["--target"],
    ("--train-sets",): ["--source and --target"],
    ("--tsv",): ["--pairs"],
    ("--save-dir", "--save-model", "--model-dir"): ["--out"],
    # training
    ("--batch-size", "--max-tokens", "--mini-batch"): ["--batch-tokens", "--set train.batch_tokens=N"],
    ("--lr", "--learning-rate"): ["--set train.schedule.peak=X"],
    ("--arch",): ["--preset"],
    ("--after", "--max-update", "--train-steps"): ["--steps"],
    ("--after-epochs", "--max-epoch"): ["--epochs"],
    ("--valid-freq", "--valid-steps", "--save-freq", "--save-interval-updates"): ["--set train.validate_every=N"],
    ("--early-stopping", "--patience"): ["--set train.patience=N"],
    ("--warmup", "--warmup-steps", "--warmup-updates", "--lr-warmup"): ["--set train.schedule.warmup=N"],
    ("--label-smoothing",): ["--set train.label_smoothing=X"],
    ("--clip-norm", "--max-grad-norm"): ["--set train.clip=X"],
    ("--dump-config",): ["--print-config"],
    ("--train-from", "--restore-file", "--finetune-from-model"): ["--from-model"],
    ("--devices", "--gpus", "--gpu-ranks"): ["--device"],
}


def find_equivalent(given: str, known: list[str]) -> str | None:
    """Our name for another toolkit's option, among those that a verb knows; None if there is no equivalent."""
    name = given.replace("_", "-")
    for foreign_names, equivalents in FOREIGN_OPTIONS.items():
        if name in foreign_names:
            return next((option for option in equivalents if option.split()[0] in known), None)
    return None
