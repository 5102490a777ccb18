"""Copies of sentence pairs that teach a model what clean text does not show. Knows text and reserved symbols.

Imports training.cleaning, training.corpora and, of model, languages and tokenizer.
"""
