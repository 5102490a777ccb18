"""Published models of other programs, by family, made into bundles.

Imports training.export, training.optim, training.evaluation, training.data, training.compute, training.download and
model.
"""
