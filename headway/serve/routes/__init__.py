"""The routes of the server, one module for each API. Each has `make_router(state)`, which app.py includes.

libretranslate     LibreTranslate's API: text, HTML and files
openai             OpenAI's /v1/completions and /v1/models, for language models
embeddings         OpenAI's /v1/embeddings, for encoders
translate_stream   POST /api/translate: a translation step by step, one JSON object a line
inspect            what the page asks beside the stream: models, attention, predictions, embeddings
studies            studies of `headway compare`: variants, numbers, names of their models
docs_page          /docs: the OpenAPI description as a page
"""
