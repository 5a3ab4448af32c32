"""Write tables as CSV, JSON Lines and Parquet (extra `parquet`), row by row."""
