"""One flooding Droid, read by our adapter and by Factory's own Python SDK."""
