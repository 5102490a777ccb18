"""Cleaning of sentence pairs: which to drop, which to repair, and which to hold out for development.

Imports training.corpora, training.process_map, model.languages and model.tokenizer.
"""
