"""What draws on a terminal and reads from it."""
