"""The int8 decoder in C: compiled, loaded, fed with weights and batches; and its arithmetic in PyTorch.

Imports model.decoding.batch, model.decoding.beam and what these import.
"""
