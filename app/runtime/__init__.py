"""What any long-running service needs: metrics, logs, timeouts, rate limits, memory budgets. Knows no translation.

Imports app.errors and model.machine.
"""
