"""Measurements against common alternatives. The service and the trainer do not import them."""
