"""The server below the application: sockets, connections, the HTTP protocol and the request queue.

Imports app.settings, app.runtime and app.errors.
"""
