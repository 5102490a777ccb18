"""Token ids in, token ids out: the queue, the cache, the workers and the bundles they hold. Knows no text and no HTTP.

Imports app.errors, app.runtime, app.settings and model.
"""
