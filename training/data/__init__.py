"""Sentence pairs to token shards, and token shards to batches. Knows the vocabulary; no weights.

Imports training.cleaning, training.corpora and, of model, what needs no weights.
"""
