"""Facts as a person reads them in a terminal, or as other programs do: text, tables, charts, JSON."""
