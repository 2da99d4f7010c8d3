"""Editors' protocol: how soon it greets, how fast a long session is replayed, what it adds to each chunk."""
