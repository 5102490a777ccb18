"""From a run's checkpoints to a bundle: which weights, what they score, samples, the model card.

Imports training.optim, training.evaluation, training.data, training.corpora and model.
"""
