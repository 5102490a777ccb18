"""Pairs that a model makes: distillation and back-translation. Knows texts and one bundle.

Imports training.optim, training.evaluation, training.data and what these import.
"""
