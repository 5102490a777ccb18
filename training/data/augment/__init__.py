"""Augmentation: copies of sentence pairs that teach a model what clean text does not show.

Imports training.cleaning, training.corpora, model.languages and model.tokenizer.
"""
