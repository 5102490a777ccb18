"""Token ids in, token ids out: the queue, the cache, the workers and the bundles they hold. Knows no text and no HTTP.

Imports app.errors, app.runtime and model; what the front imports of it loads no PyTorch.
"""
