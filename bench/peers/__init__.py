"""The measured servers, each behind the same interface."""
