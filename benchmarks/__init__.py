"""Measurements against what people would run otherwise. Nothing of the service or the trainer imports them."""
