"""In the user's process, recording. Light: no DuckDB, no pandas, no framework that the user did not import."""
