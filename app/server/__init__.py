"""What lies under the application: sockets, connections, the HTTP protocol and the queue of requests. Knows no route.

Imports app.errors and app.runtime.
"""
