"""Building blocks of any long-running service: metrics, logs, timeouts, rate limits, memory budgets.

Imports app.errors and model.machine.
"""
