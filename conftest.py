"""What pytest leaves alone where an optional library is not installed."""

from importlib.util import find_spec

# docstrings are read by importing their files, and these import torch
collect_ignore_glob = [] if find_spec("torch") else ["src/anytime/networks/[b-v]*.py"]
