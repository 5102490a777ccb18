"""Texts in, translations out: the one place for translation policy. Knows no HTTP and no wire format.

Imports app.engine, app.formats, app.text, app.markup and all below them.
"""
