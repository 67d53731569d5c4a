"""The table: shapes of loops, how names join on them, and the answer as rows, pandas, polars, Arrow or Parquet."""
