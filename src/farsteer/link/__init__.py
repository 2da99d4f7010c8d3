"""The link: the messages between hub and runner, and the roads they travel."""
