"""What runs on several machines.

Imports app.bulk and what it may import.
"""
