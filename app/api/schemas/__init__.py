"""Schemas of our own API's requests and responses, as the OpenAPI page shows them. Imports `app.http`, and the options
of `app.translation`."""
