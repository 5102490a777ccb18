"""Models that start from another model: fine-tuning, transfer to other languages, rehearsal.

Imports training.export, training.synthetic and what these import.
"""
