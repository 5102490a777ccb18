"""Between a connection and a route: authentication, access log, bodies, forms, hosts. Knows no translation.

Imports app.server, app.engine, app.settings, app.runtime and app.errors.
"""
