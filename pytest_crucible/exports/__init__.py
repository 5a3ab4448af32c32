"""Tables as files: CSV, JSON Lines and Parquet (extra `parquet`), written row by row."""
