"""Plain text: sentences, languages, placeholders, glossaries, words. Knows no engine and no request.

Imports app.markup, app.settings and, of model, languages, scripts, marks and normalisation.
"""
