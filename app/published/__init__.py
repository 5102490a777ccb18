"""What the service knows of published models: the list of them that ships.

Imports app.services, app.settings, app.runtime, app.errors and model.
"""
