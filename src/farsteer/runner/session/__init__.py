"""One session on this machine: its actor and what the actor is made of."""
