"""The int8 decoder in C: compilation, loading, weight layout and batches; and its arithmetic in PyTorch.

Imports model.decoding.batch, model.decoding.beam and what these import.
"""
