"""Token ids in, token ids out: queue, cache and workers. No text, no HTTP.

Imports app.errors, app.runtime and model. Only its worker and executor load PyTorch.
"""
