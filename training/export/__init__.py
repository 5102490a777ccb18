"""From a run's checkpoints to a bundle: choice of weights, metrics, samples, the model card.

Imports training.optim, training.align, training.evaluation, training.data, training.corpora and model.
"""
