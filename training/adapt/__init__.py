"""A model that begins from another one: fine-tuning, transfer to other languages, rehearsal.

Imports training.export, training.synthetic and what these import.
"""
