"""The service: bundles in, translations over HTTP out. Imports `model`, never `training`."""
