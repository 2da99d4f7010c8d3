"""What tests share. One noun per module, as in src/."""
