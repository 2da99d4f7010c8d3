"""The page for browsers, in TypeScript. Python here only makes its types."""
