"""State that outlives a request: the served bundles, background jobs, downloads, stored glossaries, the
adaptation in progress; the store of these.

Imports app.translation, app.engine, app.text and all below them.
"""
