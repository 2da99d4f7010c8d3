"""The adapter contract, the registry, the conformance suite, the process helper, and one package per adapter."""
