"""The server below the application: sockets, connections, the HTTP protocol and the request queue.

Imports app.errors and app.runtime.
"""
