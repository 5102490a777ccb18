"""Registries of published models: where their lists are, what they say, and which files a model has.

Imports training.importing.errors and model.
"""
