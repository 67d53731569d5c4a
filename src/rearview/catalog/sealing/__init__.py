"""Journals to Parquet: parse closed parts, seal them into segments, know which segment answers for which part."""
