"""Reads and writes documents in processes of their own, which can be killed.

Imports app.formats, app.markup, app.runtime, app.errors and model.
"""
