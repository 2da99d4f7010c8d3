"""The link between hub and runner: its messages and the transports that carry them."""
