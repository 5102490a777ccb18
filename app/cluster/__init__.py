"""The service on several machines: what its replicas need in a cluster.

Imports app.api, app.http, app.engine, app.server, app.settings, app.runtime and app.errors. `autoscaling` imports only
the standard library, since it runs in Ray's controller. None of them imports Ray; app.replica does.
"""
