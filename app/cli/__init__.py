"""`python -m app translate`, which translates standard input or a file with its own engine and no HTTP; also the
trainer's commands, which run as processes.

Imports app.translation, app.engine, app.formats and all below them.
"""
