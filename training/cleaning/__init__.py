"""Which pairs are of use, which can be repaired, and which are set apart for development. Knows text, no token.

Imports training.corpora, training.process_map and, of model, languages and tokenizer.
"""
