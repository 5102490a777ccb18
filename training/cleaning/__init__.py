"""Cleaning of sentence pairs: which to drop, which to repair, and which to hold out for development.

Imports training.corpora, training.process_map and, of model, languages and tokenizer.
"""
