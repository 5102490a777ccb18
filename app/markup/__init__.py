"""HTML and XML to passages of text and back, to the byte. Knows tags, entities and nesting; no language, no model.

Imports nothing of the service.
"""
