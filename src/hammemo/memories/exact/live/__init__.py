"""Live tables: rows by falling count, edited one by one, in versions that share what stays."""
