"""What callers can do with sessions, messages, approvals and machines. Each call checks the scopes of its `Caller`."""
