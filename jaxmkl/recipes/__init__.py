"""The published algorithms by name: each is a row of parts, with the paper's defaults."""
