"""`interlinear doctor`: what is wrong with a machine, its settings and its bundles, and what to do.

Imports services, http, server, engine, settings, runtime and model; `app.__main__` runs it.
"""
