"""`python -m app translate --in PLACE --out PLACE`: folders of texts, here or in object storage, shard by shard.

Imports app.cli for its engine, and what app.cli may import.
"""
