"""The commands but `import`: their options, and no logic except that of `toy` and `d2l`, which no other package needs.

Imports every package of training.
"""
