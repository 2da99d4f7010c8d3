"""Benchmarks against other servers: `make bench`, or `python -m bench --help`."""
