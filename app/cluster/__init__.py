"""The service and bulk translation on several machines: what replicas and their tasks need in a cluster.

Imports app.bulk, app.api, app.http, app.engine, app.server, app.settings, app.runtime and app.errors. `autoscaling`
imports only the standard library, since it runs in Ray's controller. Only `bulk_ray` imports Ray, and app.replica does.
"""
