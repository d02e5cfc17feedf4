"""``python -m anytime.cli``."""

from anytime.cli import main

main()
