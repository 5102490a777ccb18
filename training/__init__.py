"""The trainer: sentence pairs in, a bundle out. Offline. Imports `model`; `app` never imports it."""
