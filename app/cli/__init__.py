"""`python -m app translate`: standard input or a file, through an engine of its own. Knows no HTTP. Also the
trainer's verbs, which it starts as processes.

Imports app.translation, app.engine, app.formats and all below them.
"""
