"""Optimisation: recipe, loss, steps, the training loop, checkpoints and curves.

Imports training.evaluation, training.data, training.cleaning and model.
"""
