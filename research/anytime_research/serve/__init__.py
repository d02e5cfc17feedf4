"""Measuring a server from outside: an open-loop load generator."""
