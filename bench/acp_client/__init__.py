"""The ACP client: what a message costs Farsteer's adapter, and a client built on the official Python SDK."""
