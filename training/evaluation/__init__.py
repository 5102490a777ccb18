"""Scores models and bundles on test sets: BLEU and chrF, of the bare decoder or of the service's command.

Imports training.data, training.cleaning, training.corpora, training.compute and model.
"""
