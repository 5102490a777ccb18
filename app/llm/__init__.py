"""A large language model behind an OpenAI-compatible server, and the prompts that ask it for translations.

Imports app.settings, app.runtime, app.errors and model.languages.
"""
