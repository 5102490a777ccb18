"""Converts HTML and XML to passages of text and back, byte for byte. Handles tags, entities and nesting.

Imports nothing of the service.
"""
