"""`farsteer acp`: time to `initialize`, speed of a replay, and delay of each chunk."""
