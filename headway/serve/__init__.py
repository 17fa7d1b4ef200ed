"""The HTTP server: LibreTranslate's and OpenAI's APIs, and a stream of everything that a model does.

A request's way:

    uvicorn (server) ─► app ─► middleware.RequestGuard    body size, time limits, log line, metrics, error responses
                                  │
                            routes/                       one router per API
                              libretranslate              /translate, /detect, /languages, /translate_file, …
                              openai                      /v1/completions, /v1/models
                              translate_stream            /api/translate: every step of a search, as NDJSON
                              inspect                     /api/models, /api/places, … for the page
                              docs_page                   /docs
                                  │   state.ServerState   what routes share: API keys (api_keys), limits, open streams
                                  │   schemas             request bodies, validated; openapi describes them in /spec
                                  ▼
                            translate.translate_texts     long texts in pieces; in time, and only while the client waits
                            (documents: HTML and files; languages: codes and detection)
                                  │
                            batch_queue.BatchQueue        texts of all connections, batched by tokens; QueueBudget: 429
                                  │
                            model_pool.ModelPool          models by language pair or name; loaded on use, LRU
                                  ▼
                            headway.translate             the translator itself

    answers that grow:  event_stream (a thread's events to a slow reader)  ◄─ step_events (one event a search step)
    beside them:        downloads (translated files), metrics (/metrics), errors (ApiError), settings (limits)
"""
