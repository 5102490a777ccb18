"""Published models of other programs, by family, made into bundles.

Imports training.export, training.evaluation, training.corpora, training.compute, training.command_line,
training.protobuf, training.download and model. Without --check and --calibrate it needs only what the service installs.
"""
