"""An agent for benchmarks, brought to `farsteer up` as any third party brings one: by an entry point on its path."""
