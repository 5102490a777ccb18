"""Synthetic pairs that a model makes: distillation and back-translation.

Imports training.optim, training.evaluation, training.data and what these import.
"""
