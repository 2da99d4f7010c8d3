"""Real agent CLIs: what Farsteer adds to driving them directly."""
