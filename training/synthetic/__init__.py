"""Synthetic pairs, made by a model: distillation and back-translation.

Imports training.optim, training.evaluation, training.data and what these import.
"""
