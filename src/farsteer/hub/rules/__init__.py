"""What the hub decides, as pure functions: no database, no event loop, no clock.

A store reads rows, calls a rule and writes what the rule returns, so that every store decides alike.
"""
