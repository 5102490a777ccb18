"""From sentence pairs to token shards, and from token shards to batches.

Imports training.cleaning, training.corpora and, of model, what needs no weights.
"""
