"""Published models: the catalogue of them that ships, and how one is installed while the service runs.

Imports app.services and what is below it, but not the web framework.
"""
