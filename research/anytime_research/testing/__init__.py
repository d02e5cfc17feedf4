"""Random price lists, forests and plans for tests."""
