"""Routes, their schemas and the OpenAPI document, for our own API, LibreTranslate's, DeepL's, and the page.

Imports every other package of app except cli.
"""
