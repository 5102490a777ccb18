"""The trainer: sentence pairs in, a bundle out. Offline; `app` never imports it."""
