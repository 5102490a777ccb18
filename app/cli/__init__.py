"""`python -m app translate`: standard input or a file, through an engine of its own. Knows no HTTP.

Imports app.translation, app.engine, app.formats and all below them.
"""
