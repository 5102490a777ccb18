"""Augmentation: copies of sentence pairs that teach a model what clean text does not show.

Imports training.cleaning, training.corpora and, of model, languages and tokenizer.
"""
