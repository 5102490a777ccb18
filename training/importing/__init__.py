"""Published models of other programs, by family, made into bundles.

Imports training.export, training.evaluation, training.data, training.compute and model.
"""
