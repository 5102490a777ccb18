"""The Transformer, its decoder, its tokenizer and its bundle: shared by `training` and `app`, importing neither."""

__version__ = "0.1.0"
"""Of the whole project; pyproject.toml reads it here, since the container copies the code and installs no project."""
