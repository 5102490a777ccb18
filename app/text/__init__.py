"""Plain-text processing: sentences, languages, placeholders, glossaries, words.

Imports app.markup, app.settings and, of model, languages, scripts, normalisation, machine and
shared_file.
"""
