"""The servers that are measured: ours and its peers, each behind the same small contract."""
