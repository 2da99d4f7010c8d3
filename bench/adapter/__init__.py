"""An agent for benchmarks, provided to `farsteer up` as a third party provides one: with an entry point on its path."""
