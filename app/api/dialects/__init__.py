"""The APIs of others, as a table: each is rows of paths, fields and answers, which one handler serves.

Imports what app.api may.
"""
