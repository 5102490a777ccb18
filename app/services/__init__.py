"""The served bundles, the adaptation in progress, and how both start.

Imports app.translation, app.engine, app.text and all below them.
"""
