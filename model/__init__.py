"""The Transformer, its decoder, tokenizer and bundle format; shared by `training` and `app`, and importing neither."""

__version__ = "0.3.0"
"""Version of the whole project; pyproject.toml reads it from here, since the container copies the code without
installing it."""
