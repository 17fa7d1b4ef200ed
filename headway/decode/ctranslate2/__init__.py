"""ctranslate2."""
