"""The service: bundles in, translations over HTTP out. Imports `model`, never `training`."""

import warnings

# PyTorch says so once where NumPy is missing; serving needs none, and the container leaves its 60 MB out.
warnings.filterwarnings("ignore", "Failed to initialize NumPy", UserWarning)
