"""Word alignment: which source token each target token translates, learnt from pairs by a statistical model, and by an
alignment head of a Transformer from that.

Imports training.evaluation, training.compute and model.
"""
