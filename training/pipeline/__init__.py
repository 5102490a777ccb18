"""The command `run`: from files of pairs to a bundle in one command, planned, timed and resumable.

Imports every other package of training but cli.
"""
