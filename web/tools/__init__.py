"""What makes files of the page."""
