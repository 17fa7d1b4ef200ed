"""Translate text with a trained model.

    translator.Translator, load, load_translator     the public way in; options.TranslateOptions says how
                │
                ▼
    search.translate_requests
        source          lines ─► sentences: segmentation, protected spans, glossary terms, token ids
        search          sentences ─► hypotheses: batches, constrained decoding, retries of faulty outputs
            backends          decides between torch and CTranslate2
            lost_numbers      retries with placeholders for numbers that went missing
            protected_spans   keeps URLs, tags and placeholders, or inserts them by word alignment
        results         hypotheses ─► Translation with its n-best Guesses

    language_model   LanguageModel: continue a prompt
    routing          lines in several languages, each to the model of its language
    alignment        word alignment from cross-attention
    scoring          log-probability of given translations
    confidence       how likely a translation is good, from 0 to 1

Only alignment, scoring and language_model import torch when they are imported."""
