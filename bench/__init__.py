"""What we claim, measured side by side with peers: `make bench`, or `python -m bench --help`."""
