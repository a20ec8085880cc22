"""A small peer of MMSP/1, written from docs/specification/mmsp1.md alone."""
