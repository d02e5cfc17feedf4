"""Verdicts and figures of the pages of results; ``pages.py`` puts them there."""
