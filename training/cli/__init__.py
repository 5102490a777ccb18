"""The commands: their options and no logic. Commands without a package of their own are also here.

Imports every package of training.
"""
