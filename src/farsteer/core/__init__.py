"""The domain: immutable values and pure functions. No I/O and no asyncio."""
