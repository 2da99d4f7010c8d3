"""The hub's side of the link: runners connect here."""
