"""Files that cuDF reads and writes otherwise than pandas, or not at all."""
