"""The service: serves bundles as translations over HTTP. Imports `model`, never `training`."""
