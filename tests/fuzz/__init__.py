"""Mutated input for every face of real processes, beside a well-behaved client that must never fail: `make fuzz`."""
