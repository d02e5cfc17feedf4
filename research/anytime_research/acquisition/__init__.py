"""What buying by margins is compared with: the value of a classifier by a local model of the data."""
