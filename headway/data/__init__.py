"""Corpora on disk -> batches of ids."""
