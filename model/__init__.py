"""The Transformer, its decoder, its tokenizer and its bundle: shared by `training` and `app`, importing neither."""
