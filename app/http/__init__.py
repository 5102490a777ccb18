"""Everything between a connection and a route: authentication, access log, bodies, forms, hosts.

Imports app.server, app.engine, app.settings, app.runtime and app.errors.
"""
