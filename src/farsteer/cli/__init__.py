"""The `farsteer` command: `commands/` has one module per command, `terminal/` and `daemon/` have what they share."""
