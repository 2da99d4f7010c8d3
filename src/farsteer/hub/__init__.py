"""The hub: where runners, sessions and clients meet."""
