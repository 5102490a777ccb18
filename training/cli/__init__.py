"""Verbs of the command line that have no package of their own: their options, and nothing another module imports.

Imports every package of training.
"""
