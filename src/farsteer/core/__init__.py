"""The domain: pure values and decisions, no I/O and no asyncio."""
