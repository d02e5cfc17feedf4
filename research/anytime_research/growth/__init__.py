"""Growth: forward stagewise regression, which it resembles, and Cascade-Correlation, which came before it."""
