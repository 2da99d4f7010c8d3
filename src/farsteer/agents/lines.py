"""Lines out of an agent's chunks. The splitting is the core's; adapters find it here."""

from farsteer.core.lines import LINE_LIMIT, Line, LineSplitter, Oversized

__all__ = ["LINE_LIMIT", "Line", "LineSplitter", "Oversized"]
