"""How a model learns: recipe, loss, steps, the loop around them, checkpoints and curves. Knows batches, no text.

Imports training.evaluation, training.data, training.cleaning and model.
"""
