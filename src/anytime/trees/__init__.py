"""Trees and forests as plans: flat arrays, import from other libraries, ordering for anytime use."""
