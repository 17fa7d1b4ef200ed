"""The HTTP API: what LibreTranslate's and OpenAI's clients speak, and a stream of everything that a model does."""
