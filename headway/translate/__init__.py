"""Translate text with a trained model.

    translator.Translator, load, load_translator     the public way in; options.TranslateOptions says how
                │
                ▼
    search.translate_requests
        source          lines ─► sentences: segmentation, protected spans, glossary terms, token ids
        memory_matches  sentences that a translation memory has
        search          sentences ─► hypotheses: batches, constrained decoding, retries of faulty outputs
            backends          decides between torch and CTranslate2
            search_calls      what a search needs computed, as values that a queue can batch
            retry_budget      how much of the work may be retries
            lost_numbers      retries with placeholders for numbers that went missing
            protected_spans   keeps URLs, tags and placeholders, or inserts them by word alignment
            mbr               candidates in the order of minimum Bayes risk
            garbled           replaces outputs with bytes that are no character
            languages         the languages of a sentence, by its tag
        results         hypotheses ─► Translation with its n-best Guesses

    language_model   LanguageModel: continue a prompt
    masked_words     guess masked words
    text_vectors     vectors of texts
    adapters         a model with a LoRA adapter over it, sharing its weights
    routing          lines in several languages, each to the model of its language
    pivot            through another language: two translators in a row
    alignment        word alignment from cross-attention
    scoring          log-probability of given translations
    notebook         what notebooks show of a translator
    confidence       how likely a translation is good, from 0 to 1

Only alignment, scoring, language_model, masked_words and text_vectors import torch when they are imported."""
