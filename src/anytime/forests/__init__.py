"""Trees and forests under a budget: growing them with prices, pruning what was grown."""
