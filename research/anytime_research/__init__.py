"""Theory, counter-examples, synthetic stand-ins and experiment presets of the works behind ``anytime``; not in the wheel."""
