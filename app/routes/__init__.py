"""The native API: each route is its schemas and a few lines."""
