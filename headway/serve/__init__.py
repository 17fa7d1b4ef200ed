"""The HTTP server: LibreTranslate's and OpenAI's APIs, and a stream of everything that a model does.

A request's way:

    uvicorn (server) ─► app ─► middleware.RequestGuard    body size, time limits, log line, metrics, error responses
                                  │
                            routes/                       one router per API
                              libretranslate              /translate, /detect, /languages, /translate_file, …
                              openai, embeddings          /v1/completions, /v1/models, /v1/embeddings
                              translate_stream            /api/translate: every step of a search, as NDJSON
                              inspect                     /api/models, /api/places, … for the page
                              answer                      /api/answer: questions about documents (answers: the index)
                              studies                     /api/studies: what `headway compare` found, for the page
                              docs_page                   /docs, with examples that work here
                                  │   state.ServerState   what routes share: API keys (api_keys), limits, open streams
                                  │   schemas             request bodies, validated; openapi describes them in /spec
                                  ▼
                            translate.translate_texts     in time, and only while the client waits
                            (documents: HTML and files; languages: codes and detection)
                                  │
                            batch_queue.BatchQueue        sentences of all clients, in turn, in slices of bounded cost
                              queued_job, queued_texts    a request: its texts, their sentences, what each needs next
                              queue_budget                measured speed; how much may wait: 429
                                  │
                            model_pool.ModelPool          models by language pair or name; loaded on use, LRU
                              served_route                one model, or two in a row through another language
                              preload                     the first of them, while the server starts
                              studies                     results of `headway compare`, whose models it serves, too
                                  ▼
                            headway.translate             the translator itself

    answers that grow:  event_stream (a thread's events to a slow reader)  ◄─ step_events (one event a search step)
    files:              document_workers (processes that parse, few at a time)  ─►  downloads, download_names
    beside them:        memory (one budget, judged by what is resident), metrics (/metrics), settings,
                        suggestions (/suggest), names, errors (ApiError), openai_errors (the same in OpenAI's form)
"""
