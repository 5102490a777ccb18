"""From sentence pairs to token shards, and from token shards to batches.

Imports training.cleaning, training.corpora and the modules of model that need no weights.
"""
