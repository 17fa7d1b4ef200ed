"""Answers from one's own documents, with quotes of what they rest on.

    files ─ document_files ─► documents.blocks ─► passages (cut)  ─► passage_index   on disk: words, passages, vectors
                                                                        │
    question ──► search (BM25, vectors, both by rank fusion) ◄──────────┘
                    │ candidates
                    ▼
                 quotes (the best sentences, none twice)
                    │
          ┌─────────┴──────────┐
       extract              write (a language model reads numbered passages)
       (quotes alone)          │
          │                 judge (citations; support: is it said there?)
          ▼                    ▼
        results.CitedAnswer: sentences with sources; unsupported ones are marked

answerer runs the steps in order and yields each, for a terminal, a server and its page."""
