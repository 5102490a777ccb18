"""Translates texts and documents: segmentation, terminology, quality checks. Has no HTTP and no wire format.

Imports app.llm, app.engine, app.formats, app.text, app.markup and all below them.
"""
